import assert from "node:assert/strict";
import { createLabelBound } from "../../src/telemetry/label_bound.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";

const MODELS = ["openai/gpt-x", "groq/openai/gpt-oss-120b"];

/** Value of one series, written as Prometheus writes it. */
function valueOf(text: string, series: string): number | undefined {
  const line = text.split("\n").find((line) => line.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

Deno.test("everything that was recorded is rendered", async () => {
  const metrics = createMetrics({ models: MODELS });
  metrics.request({ route: "/v1/chat/completions", method: "POST", status: 200, durationMs: 30 });
  metrics.request({ route: "/v1/chat/completions", method: "POST", status: 200, durationMs: 700 });
  metrics.upstreamAttempt({ provider: "openai", model: "gpt-x", outcome: "ok" });
  metrics.upstreamAttempt({
    provider: "groq",
    model: "openai/gpt-oss-120b",
    outcome: "upstream_cut",
  });
  metrics.firstToken("openai", 300);
  metrics.overhead(0.3);
  metrics.tokens({ provider: "openai", model: "gpt-x", kind: "prompt", count: 12 });
  metrics.tokens({ provider: "openai", model: "gpt-x", kind: "prompt", count: 8 });
  metrics.unknownPrice({ provider: "openai", model: "gpt-x" });
  metrics.cost({ provider: "openai", model: "gpt-x", micros: 1500 });
  metrics.cost({ provider: "openai", model: "gpt-x", micros: 0 });
  metrics.retry({ provider: "openai", model: "gpt-x" });
  metrics.failover({ provider: "openai", model: "gpt-x" });
  metrics.run({ agent: "default", finishReason: "stop" });
  metrics.toolCall({ tool: "hub.read_result", outcome: "succeeded", durationMs: 20 });
  metrics.usageQueue(7);
  metrics.databaseError();
  metrics.notification("sent");
  metrics.notification("sent");
  metrics.listenerUp(false);
  metrics.listenerUp(true);
  metrics.openStreams(1);
  metrics.openStreams(1);
  metrics.openStreams(-1);
  const text = await metrics.render();
  const wanted: [string, number][] = [
    ['loophub_http_requests_total{route="/v1/chat/completions",method="POST",status="200"}', 2],
    ['loophub_http_request_seconds_bucket{le="0.05",route="/v1/chat/completions"}', 1],
    ['loophub_http_request_seconds_sum{route="/v1/chat/completions"}', 0.73],
    ['loophub_upstream_attempts_total{provider="openai",model="gpt-x",outcome="ok"}', 1],
    [
      'loophub_upstream_attempts_total{provider="groq",model="openai/gpt-oss-120b",outcome="upstream_cut"}',
      1,
    ],
    ['loophub_upstream_first_token_seconds_count{provider="openai"}', 1],
    ['loophub_overhead_seconds_bucket{le="0.0005"}', 1],
    ['loophub_tokens_total{provider="openai",model="gpt-x",kind="prompt"}', 20],
    ['loophub_unknown_price_total{provider="openai",model="gpt-x"}', 1],
    ['loophub_cost_micros_total{provider="openai",model="gpt-x"}', 1500],
    ['loophub_retries_total{provider="openai",model="gpt-x"}', 1],
    ['loophub_failovers_total{provider="openai",model="gpt-x"}', 1],
    ['loophub_runs_total{agent="default",finish_reason="stop"}', 1],
    ['loophub_tool_calls_total{tool="hub.read_result",outcome="succeeded"}', 1],
    ['loophub_tool_call_seconds_count{tool="hub.read_result"}', 1],
    ["loophub_usage_queue_depth", 7],
    ["loophub_database_errors_total", 1],
    ['loophub_notifications_total{outcome="sent"}', 2],
    ["loophub_listener_up", 1],
    ["loophub_open_streams", 1],
  ];
  for (const [series, value] of wanted) assert.equal(valueOf(text, series), value, series);
  assert.match(metrics.contentType, /^text\/plain; version=0\.0\.4/);
});

Deno.test("every metric has help and type, and a name of the hub", async () => {
  const text = await createMetrics().render();
  const names = [...text.matchAll(/^# TYPE (\S+) \S+$/gm)].map(([, name]) => name ?? "");
  assert.equal(names.length, 32);
  for (const name of names) {
    assert.match(name, /^loophub_[a-z_]+$/);
    assert.match(text, new RegExp(`^# HELP ${name} \\S`, "m"));
  }
});

Deno.test("models that are not configured are counted together", async () => {
  const metrics = createMetrics({ models: MODELS });
  for (let n = 0; n < 50; n++) {
    metrics.tokens({ provider: "openai", model: `invented-${n}`, kind: "completion", count: 1 });
    metrics.upstreamAttempt({ provider: "other-provider", model: "gpt-x", outcome: "ok" });
  }
  const text = await metrics.render();
  assert.equal(
    valueOf(text, 'loophub_tokens_total{provider="openai",model="other",kind="completion"}'),
    50,
  );
  assert.equal(
    valueOf(
      text,
      'loophub_upstream_attempts_total{provider="other-provider",model="other",outcome="ok"}',
    ),
    50,
  );
});

Deno.test("names from outside cannot make series without end", async () => {
  const metrics = createMetrics();
  for (let n = 0; n < 1000; n++) {
    metrics.request({ route: `/r${n}`, method: `M${n}`, status: 200, durationMs: 1 });
    metrics.toolCall({ tool: `t${n}`, outcome: `o${n}`, durationMs: 1 });
    metrics.run({ agent: `a${n}`, finishReason: `f${n}` });
    metrics.firstToken(`p${n}`, 1);
  }
  const text = await metrics.render();
  const count = (name: string) =>
    text.split("\n").filter((line) => line.startsWith(`${name}{`)).length;
  assert.equal(count("loophub_http_requests_total"), 201);
  assert.equal(count("loophub_tool_calls_total"), 201);
  assert.equal(count("loophub_upstream_first_token_seconds_count"), 201);
  assert.equal(valueOf(text, 'loophub_tool_calls_total{tool="other",outcome="other"}'), 800);
});

Deno.test("recording never throws, whatever the number", async () => {
  const metrics = createMetrics();
  for (const odd of [NaN, Infinity, -1]) {
    metrics.request({ route: "/", method: "GET", status: odd, durationMs: odd });
    metrics.firstToken("p", odd);
    metrics.overhead(odd);
    metrics.tokens({ provider: "p", model: "m", kind: "cached", count: odd });
    metrics.toolCall({ tool: "t", outcome: "o", durationMs: odd });
    metrics.usageQueue(odd);
  }
  assert.equal(valueOf(await metrics.render(), "loophub_overhead_seconds_count"), 3);
});

Deno.test("two hubs in one process keep their numbers apart", async () => {
  const [one, two] = [createMetrics(), createMetrics()];
  one.databaseError();
  assert.equal(valueOf(await two.render(), "loophub_database_errors_total"), 0);
});

Deno.test("the bound of a label is its own", () => {
  const bound = createLabelBound(2);
  assert.deepEqual(["a", "b", "c", "a"].map((value) => bound("x", value)), [
    "a",
    "b",
    "other",
    "a",
  ]);
  assert.equal(bound("y", "c"), "c");
});
