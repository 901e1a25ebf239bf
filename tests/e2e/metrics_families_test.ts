import assert from "node:assert/strict";
import { chatCompletion, chatError, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

/** What the operator asks of the hub, each with the labels that its series may have. */
const FAMILIES: Record<string, readonly string[]> = {
  loophub_http_requests_total: ["route", "method", "status"],
  loophub_http_request_seconds: ["route"],
  loophub_upstream_attempts_total: ["provider", "model", "outcome"],
  loophub_upstream_first_token_seconds: ["provider"],
  loophub_tokens_total: ["provider", "model", "kind"],
  loophub_cost_micros_total: ["provider", "model"],
  loophub_retries_total: ["provider", "model"],
  loophub_failovers_total: ["provider", "model"],
  loophub_breaker_state: ["provider", "model", "of"],
  loophub_breaker_opened_total: ["provider", "model", "of"],
  loophub_gate_inside: ["gate", "name"],
  loophub_gate_waiting: ["gate", "name"],
  loophub_gate_turned_away_total: ["gate", "name", "reason"],
  loophub_usage_queue_depth: [],
  loophub_overhead_seconds: [],
};

Deno.test("retries, failovers, breakers, cost and queues are counted, and no client makes a series", async () => {
  const bad = await startScriptedUpstream(() => chatError(500));
  const good = await startScriptedUpstream();
  const usage = {
    promptTokens: 1000,
    completionTokens: 200,
    totalTokens: 1200,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
  const pricing = { inputPerMillion: 2, outputPerMillion: 10 };
  const config = {
    providers: {
      bad: { baseUrl: bad.url, apiKey: "sk-bad", models: ["m"], maxRetries: 1 },
      good: { baseUrl: good.url, apiKey: "sk-good", models: { m: { pricing } } },
      open: { baseUrl: good.url, apiKey: "sk-open", maxConcurrent: 1 },
    },
    models: { pair: { targets: ["bad/m", "good/m"] } },
    limits: { maxConcurrentPerKey: 40 },
  };
  try {
    await withHub(config, async (hub) => {
      const text = async () => await (await hub.call("/metrics")).text();
      const valueOf = async (series: string) => {
        const line = (await text()).split("\n").find((line) => line.startsWith(`${series} `));
        return line === undefined ? null : Number(line.slice(series.length + 1));
      };
      const ask = async (model: string) => {
        const body = { model, messages: [{ role: "user", content: "Hi" }] };
        const answer = await hub.call("/v1/chat/completions", { body });
        await answer.text();
        return answer.status;
      };
      good.script(() => chatCompletion({ text: "Hello", usage }));
      for (let request = 0; request < 4; request++) assert.equal(await ask("pair"), 200);
      const target = 'provider="bad",model="m"';
      assert.equal(bad.requests.length, 5, "it rests from its fifth failure on");
      assert.equal(await valueOf(`loophub_retries_total{${target}}`), 2);
      assert.equal(await valueOf(`loophub_failovers_total{${target}}`), 3);
      assert.equal(await valueOf(`loophub_breaker_state{${target},of="target"}`), 2);
      assert.equal(await valueOf(`loophub_breaker_opened_total{${target},of="target"}`), 1);
      const other = 'provider="good",model="m"';
      assert.equal(await valueOf(`loophub_breaker_state{${other},of="target"}`), 0);
      assert.equal(await valueOf(`loophub_cost_micros_total{${other}}`), 4 * 4000);

      const held = Promise.withResolvers<void>();
      good.script(async () => {
        await held.promise;
        return chatCompletion({ text: "Hello", usage });
      });
      const both = [ask("open/one"), ask("open/two")];
      const gate = 'gate="provider",name="open"';
      await eventually(async () =>
        await valueOf(`loophub_gate_waiting{${gate}}`) === 1 ? true : null
      );
      assert.equal(await valueOf(`loophub_gate_inside{${gate}}`), 1);
      held.resolve();
      assert.deepEqual(await Promise.all(both), [200, 200]);

      const count = async () => (await text()).split("\n").filter((line) => line !== "").length;
      await ask("open/first");
      await hub.call("/no/such/path").then((answer) => answer.text());
      const before = await count();
      for (let name = 0; name < 30; name++) {
        await ask(`open/of-a-client-${name}`);
        await hub.call(`/no/such/path-${name}`).then((answer) => answer.text());
      }
      assert.equal(await count(), before);

      const shown = await text();
      for (const [family, labels] of Object.entries(FAMILIES)) {
        assert.match(shown, new RegExp(`^# TYPE ${family} `, "m"), family);
        const series = [...shown.matchAll(
          new RegExp(`^${family}(?:_sum|_count|_bucket)?(?:\\{(.*)\\})? `, "gm"),
        )];
        assert.ok(series.length > 0, `${family} has no series`);
        for (const [, text = ""] of series) {
          const names = [...text.matchAll(/(\w+)="/g)].map(([, name]) => name ?? "");
          const wanted = names.includes("le") ? ["le", ...labels] : [...labels];
          assert.deepEqual(names.sort(), wanted.sort(), family);
        }
      }
    });
  } finally {
    await bad.stop();
    await good.stop();
  }
});
