import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withReplicas } from "../support/test_hub.ts";

Deno.test("a run whose model is silent goes on elsewhere soon after its replica was told to end", async () => {
  const upstream = await startScriptedUpstream();
  upstream.script([
    chatStream({ text: "One two", endAfter: 2, end: "stall" }),
    chatStream({ text: "Three four" }),
  ]);
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    server: { shutdownDelayMs: 0, shutdownGraceMs: 30_000 },
    runs: { leaveAfterMs: 500 },
  };
  try {
    await withReplicas([config, config], async (first, second) => {
      await eventually(async () => {
        const text = await (await second.hub.app.request("/metrics")).text();
        return text.includes("loophub_listener_up 1") ? true : null;
      });
      const session = (await (await first.call("/v1/sessions", { body: {} })).json()).id;
      const answer = await first.call(`/v1/sessions/${session}/messages`, { body: { text: "Go" } });
      const runId = answer.headers.get("x-loophub-run") ?? "";
      await eventually(() => Promise.resolve(upstream.requests.length === 1 || null));
      const reader = (answer.body ?? assert.fail("no body")).getReader();
      for (let text = ""; !text.includes("text-delta");) {
        text += new TextDecoder().decode((await reader.read()).value);
      }
      const followed = await second.call(`/v1/runs/${runId}/stream`);
      const leftMs = performance.now();
      await first.hub.leave();
      const closed = first.hub.close();
      let text = "";
      let resetMs = NaN;
      for await (const piece of followed.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += piece;
        if (text.includes("step-reset") && Number.isNaN(resetMs)) resetMs = performance.now();
      }
      assert.match(text, /Three[\s\S]*"finishReason":"stop"/);
      // Two seconds on an idle machine; without the notification it would be the next look, five seconds after the last.
      assert.ok(resetMs - leftMs < 4000, `${resetMs - leftMs} ms`);
      await reader.cancel().catch(() => {});
      await closed;
    });
  } finally {
    await upstream.stop();
  }
});
