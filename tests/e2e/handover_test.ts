import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withReplicas } from "../support/test_hub.ts";

const config = (url: string) => ({
  providers: { one: { baseUrl: url } },
  defaultModel: "one/m",
  server: { shutdownDelayMs: 0, shutdownGraceMs: 300_000 },
  runs: { leaveAfterMs: 500 },
});

/** An upstream whose first answer stalls and whose second is whole. */
async function startStalling() {
  const upstream = await startScriptedUpstream();
  upstream.script([
    chatStream({ text: "One two", endAfter: 2, end: "stall" }),
    chatStream({ text: "Three four" }),
  ]);
  return upstream;
}

Deno.test("a run whose model is silent goes on elsewhere soon after its replica was told to end", async () => {
  const upstream = await startStalling();
  const both = config(upstream.url);
  try {
    await withReplicas([both, both], async (first, second) => {
      const session = (await (await first.call("/v1/sessions", { body: {} })).json()).id;
      const answer = await first.call(`/v1/sessions/${session}/messages`, { body: { text: "Go" } });
      const runId = answer.headers.get("x-loophub-run") ?? "";
      await eventually(() => Promise.resolve(upstream.requests.length === 1 || null));
      const reader = (answer.body ?? assert.fail("no body")).getReader();
      for (let text = ""; !text.includes("text-delta");) {
        text += new TextDecoder().decode((await reader.read()).value);
      }
      const followed = await second.call(`/v1/runs/${runId}/stream`);
      await first.hub.leave();
      const closed = first.hub.close();
      const text = await followed.text();
      assert.match(text, /step-reset[\s\S]*Three[\s\S]*"finishReason":"stop"/);
      await reader.cancel().catch(() => {});
      await closed;
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("who waits for a whole message gets it from the replica that leaves, though another one makes it", async () => {
  const upstream = await startStalling();
  const both = config(upstream.url);
  try {
    await withReplicas([both, both], async (first, second) => {
      const session = (await (await first.call("/v1/sessions", { body: {} })).json()).id;
      const asked = first.call(`/v1/sessions/${session}/messages`, {
        body: { text: "Go", stream: false },
      });
      await upstream.until(() => upstream.requests.length === 1);
      await first.hub.leave();
      const closed = first.hub.close();
      const answer = await asked;
      assert.equal(answer.status, 200);
      const { message, run } = await answer.json();
      assert.equal(message.parts.at(-1).text, "Three four");
      const seen = await (await second.call(`/v1/runs/${run.id}`)).json();
      assert.equal(seen.status, "completed");
      await closed;
    });
  } finally {
    await upstream.stop();
  }
});
