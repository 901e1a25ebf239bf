import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

Deno.test("/metrics tells what the hub has done", async () => {
  const upstream = await startScriptedUpstream();
  const usage = {
    promptTokens: 20,
    completionTokens: 9,
    totalTokens: 29,
    cachedTokens: 5,
    reasoningTokens: 3,
  };
  const providers = { up: { baseUrl: upstream.url, apiKey: "sk-up", models: ["m"] } };
  try {
    await withHub({ providers }, async (hub) => {
      const valueOf = async (series: string) => {
        const text = await (await hub.call("/metrics")).text();
        const line = text.split("\n").find((line) => line.startsWith(`${series} `));
        return line === undefined ? null : Number(line.slice(series.length + 1));
      };
      const is = (series: string, wanted: number) =>
        eventually(async () => await valueOf(series) === wanted ? true : null);
      const streams = (wanted: number) => is("loophub_open_streams", wanted);

      upstream.script([
        chatStream({ text: "Hello", endAfter: 2, end: "stall" }),
        chatStream({ text: "Hello", usage }),
      ]);
      const left = new AbortController();
      const body = { model: "up/m", stream: true, messages: [{ role: "user", content: "Hi" }] };
      const open = await hub.call("/v1/chat/completions", { body, signal: left.signal });
      await streams(1);
      left.abort();
      await open.body?.cancel().catch(() => {});
      await streams(0);
      const tokensOf = async () => {
        const kinds = ["prompt", "completion", "cached", "reasoning"].map((kind) =>
          valueOf(`loophub_tokens_total{provider="up",model="m",kind="${kind}"}`)
        );
        return (await Promise.all(kinds)).map(Number);
      };
      const upstreams = 'loophub_upstream_attempts_total{provider="up",model="m"';
      // What the client left was estimated.
      await is(`${upstreams},outcome="client_closed"}`, 1);
      const before = await tokensOf();
      await (await hub.call("/v1/chat/completions", { body })).text();
      await is(`${upstreams},outcome="ok"}`, 1);
      const after = await tokensOf();
      assert.deepEqual(after.map((count, at) => count - (before[at] ?? 0)), [20, 9, 5, 3]);
      const route = 'route="/v1/chat/completions",method="POST"';
      await is(`loophub_http_requests_total{${route},status="200"}`, 2);
      assert.equal(await valueOf('loophub_unknown_price_total{provider="up",model="m"}'), 2);
      assert.equal(await valueOf('loophub_upstream_first_token_seconds_count{provider="up"}'), 2);
      assert.equal(await valueOf("loophub_database_errors_total"), 0);
    });
  } finally {
    await upstream.stop();
  }
});
