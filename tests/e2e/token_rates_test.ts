import assert from "node:assert/strict";
import { encode } from "gpt-tokenizer/encoding/o200k_base";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { createRandom } from "../support/random.ts";
import { chatCompletion, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { systemClock } from "../support/system_clock.ts";
import { startTestHub } from "../support/test_hub.ts";
import { MONEY_CONFIG } from "./money_rig.ts";

const LIMIT = 20_000;
const MINUTE_MS = 60_000;
/** What may be over, as a share of the limit. */
const TOLERANCE = 0.05;

/** What a provider has seen of a call. */
interface Served {
  atMs: number;
  tokens: number;
}

/** The most tokens of any 60 seconds. */
function busiestMinute(served: readonly Served[]): number {
  const sums = served.map(({ atMs }) =>
    served.filter((other) => other.atMs >= atMs && other.atMs < atMs + MINUTE_MS)
      .reduce((sum, { tokens }) => sum + tokens, 0)
  );
  return Math.max(0, ...sums);
}

/** A text as clients send them: prose, or JSON, which has more tokens for its length. */
function promptOf(random: () => number): string {
  const words = 5 + Math.floor(random() * 400);
  if (random() < 0.5) return "the weather is fine today and so are we ".repeat(words / 8);
  return JSON.stringify(
    Array.from({ length: words / 8 }, (_, id) => ({ id, value: random(), done: id % 2 === 0 })),
  );
}

Deno.test("tokens of a minute: two replicas, calls at once, any sizes; never 5 % over in any 60 seconds", async () => {
  const seed = Number(Deno.env.get("FC_SEED") ?? Math.floor(Math.random() * 2 ** 31));
  const random = createRandom(seed);
  let offsetMs = 0;
  const clock = { ...systemClock, now: () => 1_800_000_000_000 + offsetMs };
  const served: Served[] = [];
  const upstream = await startScriptedUpstream(({ json }) => {
    const { messages, max_tokens } = json;
    const promptTokens = encode(String((messages as JsonObject[])[0]?.["content"])).length;
    const completionTokens = Math.ceil(random() * Number(max_tokens));
    served.push({ atMs: clock.now(), tokens: promptTokens + completionTokens });
    return chatCompletion({ text: "hello", usage: { promptTokens, completionTokens } });
  });
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-hub-" });
  const options = { databaseUrl: postgres.url, dataDir, clock };
  const config = MONEY_CONFIG(upstream.url);
  const first = await startTestHub(config, options);
  const second = await startTestHub(config, { ...options, key: first.key });
  try {
    const policy = { tokensPerMinute: LIMIT };
    const body = { name: "k", policy };
    const { token } = await (await first.call("/v1/admin/keys", { body })).json();
    let asked = 0;
    let refused = 0;
    const ask = async () => {
      const hub = asked++ % 2 === 0 ? first : second;
      const body: Json = {
        model: "up/m",
        max_tokens: 1 + Math.floor(random() * 800),
        messages: [{ role: "user", content: promptOf(random) }],
      };
      const headers = { authorization: `Bearer ${token}` };
      const answer = await hub.call("/v1/chat/completions", { headers, body });
      await answer.text();
      if (answer.status === 200) return;
      assert.equal(answer.status, 429, `FC_SEED=${seed}`);
      const after = Number(answer.headers.get("retry-after"));
      assert.ok(after >= 1 && after <= 63, `FC_SEED=${seed}: ${after}`);
      refused++;
    };
    for (let burst = 0; burst < 60; burst++) {
      offsetMs += Math.floor(random() * 15_000);
      await Promise.all(Array.from({ length: 1 + Math.floor(random() * 30) }, ask));
    }
    const most = busiestMinute(served);
    const told = `FC_SEED=${seed}: ${most} tokens in a minute of ${LIMIT}`;
    assert.ok(most <= LIMIT * (1 + TOLERANCE), told);
    assert.ok(refused > 0, told);
    // What there is room for is served: calls came for more than the limit in nearly every minute.
    const tokens = served.reduce((sum, { tokens }) => sum + tokens, 0);
    assert.ok(tokens >= 0.6 * LIMIT * offsetMs / MINUTE_MS, `${told}, ${tokens} in ${offsetMs} ms`);
  } finally {
    await second.close();
    await first.close();
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(dataDir, { recursive: true });
  }
});
