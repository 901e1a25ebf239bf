import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { chatStream } from "../support/scripted_upstream.ts";
import { startTestHub, type TestHub } from "../support/test_hub.ts";
import { MONEY_CONFIG, used, withMoney } from "./money_rig.ts";

/** What each call uses, and costs in micros; what is reserved for it is ten times as much. */
const USAGE = { promptTokens: 100, completionTokens: 50 };
const COST = 200;
const BODY = { max_tokens: 1000 };
const MOST_RESERVED = 2200;
const CALLS = 8;

/** Reads a stream until its text has this, and leaves the rest unread. */
async function readUntil(answer: Response, end: string): Promise<() => Promise<void>> {
  const reader = (answer.body ?? assert.fail("no body")).pipeThrough(new TextDecoderStream())
    .getReader();
  for (let seen = ""; !seen.includes(end);) {
    const { done, value } = await reader.read();
    assert.ok(!done, `the stream ends without ${end}: ${seen}`);
    seen += value;
  }
  return async () => void await reader.cancel();
}

Deno.test("calls one after the other up to a hard budget are never refused for what the one before had reserved", async (t) => {
  await withMoney({}, async ({ hub, upstream, makeKey, ask }) => {
    const other = await startTestHub(MONEY_CONFIG(upstream.url), {
      databaseUrl: hub.databaseUrl,
      dataDir: hub.dataDir,
      key: hub.key,
      log: SILENT_LOG,
    });
    const policy = { budgets: { total: { hardMicros: (CALLS - 1) * COST + MOST_RESERVED } } };
    const at = (call: number): TestHub => call % 2 === 0 ? hub : other;
    try {
      await t.step("answers that come whole", async () => {
        upstream.script(used(USAGE));
        const { token } = await makeKey(policy);
        for (let call = 0; call < CALLS; call++) {
          const answer = await ask(token, BODY, { hub: at(call) });
          assert.equal(answer.status, 200, await answer.text());
        }
      });

      await t.step("streams, from the frame that ends them", async () => {
        upstream.script(chatStream({ deltas: ["a", "b"], usage: USAGE }));
        const { token } = await makeKey(policy);
        for (let call = 0; call < CALLS; call++) {
          const answer = await ask(token, { ...BODY, stream: true }, { hub: at(call) });
          assert.equal(answer.status, 200, `call ${call}`);
          const leave = await readUntil(answer, "[DONE]");
          if (call === CALLS - 1) await leave();
        }
      });

      await t.step("translated streams of other dialects", async () => {
        const { token } = await makeKey(policy);
        for (let call = 0; call < CALLS; call++) {
          const headers = { authorization: `Bearer ${token}` };
          const isMessages = call % 2 === 0;
          const input = isMessages
            ? { messages: [{ role: "user", content: "Hi" }], max_tokens: 1000 }
            : { input: "Hi", max_output_tokens: 1000, store: false };
          const path = isMessages ? "/v1/messages" : "/v1/responses";
          const answer = await at(call).call(path, {
            headers,
            body: { model: "up/m", stream: true, ...input },
          });
          assert.equal(answer.status, 200, `call ${call}`);
          await readUntil(answer, isMessages ? "message_stop" : "response.completed");
        }
      });
    } finally {
      await other.close();
    }
  });
});

Deno.test("a refusal that only reservations cause may be repeated soon, on any replica; one of spent money may not", async () => {
  await withMoney({}, async ({ hub, upstream, makeKey, ask }) => {
    const other = await startTestHub(MONEY_CONFIG(upstream.url), {
      databaseUrl: hub.databaseUrl,
      dataDir: hub.dataDir,
      key: hub.key,
      log: SILENT_LOG,
    });
    try {
      const { token } = await makeKey({ budgets: { daily: { hardMicros: MOST_RESERVED + COST } } });
      upstream.script(chatStream({ deltas: ["a", "b", "c"], endAfter: 2, end: "stall" }));
      const leave = new AbortController();
      const signal = leave.signal;
      const under = await ask(token, { ...BODY, stream: true }, { signal });
      upstream.script(used(USAGE));
      for (const at of [hub, other]) {
        const refused = await ask(token, BODY, { hub: at });
        assert.equal(refused.status, 429);
        assert.equal((await refused.json()).error.code, "insufficient_quota");
        assert.equal(refused.headers.get("retry-after"), "1");
        assert.equal(refused.headers.get("x-should-retry"), "true");
      }
      const tooMuch = await ask(token, { max_tokens: 100_000 });
      assert.equal(tooMuch.headers.get("x-should-retry"), "false");
      assert.ok(Number(tooMuch.headers.get("retry-after")) > 1);
      assert.equal((await tooMuch.json()).error.code, "insufficient_quota");
      leave.abort();
      await under.body?.cancel().catch(() => {});
    } finally {
      await other.close();
    }
  });
});
