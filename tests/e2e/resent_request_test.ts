import assert from "node:assert/strict";
import { chatCompletion, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const WHOLE = chatCompletion({ text: "Hello" });
const STREAM = chatStream({ text: "Hello" });
const CALLS = 6;

Deno.test("a request that meets the end of a kept connection is sent again, and is one try everywhere", async (t) => {
  const upstream = await startScriptedUpstream(WHOLE);
  const models = ["m", "other"];
  const providers = {
    up: { baseUrl: upstream.url, apiKey: "sk-up", models, maxRetries: 0 },
  };
  const config = {
    providers,
    defaultModel: "up/m",
    models: { m: { targets: ["up/m", "up/other"] } },
  };
  try {
    await withHub(config, async (hub) => {
      const messages = [{ role: "user", content: "Hi" }];
      const metrics = async () => (await (await hub.call("/metrics")).text()).split("\n");
      const rows = (kind: string, count: number) =>
        eventually(async () => {
          const all = await usageOf(hub, kind);
          return all.length === count ? all : null;
        });
      /** Makes the server end the connection as each second request arrives on it. */
      const endKept = (reply: typeof WHOLE) => {
        const met = new Set<string>();
        upstream.script(({ connection, text }) => {
          const kept = upstream.requests.filter((other) => other.connection === connection).length;
          if (kept < 2 || met.has(`${connection}`)) return reply;
          met.add(`${connection}`);
          assert.ok(text.includes("Hi"));
          return { raw: "", end: met.size % 2 === 0 ? "reset" : "cut" };
        });
      };
      /** Whether the only try of a call was sent again. */
      const oneTry = (attempts: unknown): boolean => {
        const [only, ...more] = attempts as { target: string; outcome: string; resent?: true }[];
        assert.deepEqual([only?.target, only?.outcome, more], ["up/m", "ok", []]);
        return only?.resent === true;
      };

      for (const stream of [false, true]) {
        await t.step(stream ? "a stream" : "a whole answer", async () => {
          endKept(stream ? STREAM : WHOLE);
          const before = upstream.requests.length;
          const earlier = (await usageOf(hub, "proxy")).length;
          let resent = 0;
          for (let call = 0; call < CALLS; call++) {
            const body = { model: "m", stream, messages };
            const answer = await hub.call("/v1/chat/completions", { body });
            assert.equal(answer.status, 200);
            const tried = answer.headers.get("x-loophub-attempts") ?? "";
            assert.match(tried, /^up\/m;ok;200;\d+(?:;resent)?$/);
            if (tried.endsWith("resent")) resent++;
            await answer.text();
          }
          const sent = upstream.requests.length - before;
          assert.ok(sent > CALLS + 1, `${sent} requests for ${CALLS} calls`);
          assert.equal(resent, sent - CALLS);
          const told = (await rows("proxy", earlier + CALLS)).slice(earlier);
          assert.ok(told.every((row) => row["outcome"] === "ok" && row["model"] === "m"));
          assert.equal(told.filter((row) => oneTry(row["attempts"])).length, resent);
        });
      }

      await t.step("a run", async () => {
        endKept(STREAM);
        const before = upstream.requests.length;
        const { id } = await (await hub.call("/v1/sessions", { body: {} })).json();
        for (let call = 0; call < CALLS; call++) {
          const body = { text: "Hi", stream: false };
          const said = await hub.call(`/v1/sessions/${id}/messages`, { body });
          const told = await said.json();
          assert.equal(told.run?.status, "completed", JSON.stringify(told));
        }
        const sent = upstream.requests.length - before;
        const told = await rows("run", CALLS);
        assert.ok(sent > CALLS + 1, `${sent} requests for ${CALLS} calls`);
        assert.equal(told.filter((row) => oneTry(row["attempts"])).length, sent - CALLS);
      });

      await t.step("metrics and health of the provider", async () => {
        const told = await metrics();
        const tries = told.filter((line) => line.startsWith("loophub_upstream_attempts_total{"));
        const only = `loophub_upstream_attempts_total{provider="up",model="m",outcome="ok"}`;
        assert.deepEqual(tries, [`${only} ${3 * CALLS}`]);
        const trouble = /^loophub_(?:failovers_total|breaker_opened_total)\{.* [1-9]/;
        assert.deepEqual(told.filter((line) => trouble.test(line)), []);
      });
    });
  } finally {
    await upstream.stop();
  }
});
