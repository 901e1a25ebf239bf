import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type Breakers, createBreakerMetrics } from "./breaker_metrics.ts";
import { createCacheMetrics } from "./cache_metrics.ts";
import type { GateCount } from "./gate_count.ts";
import { type ContextFact, createContextMetrics } from "./context_metrics.ts";
import { createGateMetrics } from "./gate_metrics.ts";
import { createLabelBound } from "./label_bound.ts";
import { createMcpMetrics, type McpMetrics } from "./mcp_metrics.ts";
import { createTallies, remember, type Tally } from "./tally.ts";
import { toSeconds } from "./to_seconds.ts";
import { createToolMetrics } from "./tool_metrics.ts";

/** What metrics may be labelled with; everything else is counted as `other`, so that no client can make new series. */
export interface MetricsOptions {
  /** Configured models as `provider/model`. */
  models?: Iterable<string>;
  /** Number of this process among those that share a port: a scrape sees one of them, so its series carry the number. */
  worker?: number | undefined;
}

/** Numbers about the service, in the Prometheus exposition format. Recording never throws. */
export interface Metrics {
  readonly contentType: string;
  render(): Promise<string>;
  /** These models, as `provider/model`, are configured too from now on. */
  know(models: Iterable<string>): void;
  /** A request was answered. `route` is its pattern, never its path. */
  request(facts: { route: string; method: string; status: number; durationMs: number }): void;
  /** One try at an upstream ended: `ok`, or the code of its error. `model` is the upstream's name for it. */
  upstreamAttempt(facts: { provider: string; model: string; outcome: string }): void;
  /** Time from the request to the first content of an upstream. */
  firstToken(provider: string, durationMs: number): void;
  /** What the hub itself added to a request. */
  overhead(durationMs: number): void;
  /** Tokens of a call. `cached` and `cache_write` ones are part of `prompt`, `reasoning` ones of `completion`. */
  tokens(
    facts: {
      provider: string;
      model: string;
      kind: "prompt" | "completion" | "cached" | "cache_write" | "reasoning";
      count: number;
    },
  ): void;
  /** A call was finished whose price is unknown, so that its cost is NULL. */
  unknownPrice(facts: { provider: string; model: string }): void;
  /** What a call has cost, in millionths of a US dollar. */
  cost(facts: { provider: string; model: string; micros: number }): void;
  /** An upstream that failed is tried once more. */
  retry(facts: { provider: string; model: string }): void;
  /** A request goes on to the next upstream, as this one failed. */
  failover(facts: { provider: string; model: string }): void;
  /** A target or a key was sent to rest; `id` is its name among the breakers. */
  breakerOpened(id: string): void;
  /** Shows these breakers from now on. */
  breakers(breakers: Breakers): void;
  /** A request of a run was measured. */
  context(fact: ContextFact): void;
  /** Something about budgets: a call refused or made unreserved, a soft one spent, a reservation that expired. */
  budget(event: string): void;
  /** What became of a request that asked for the response cache, or of its answer. */
  cache(event: string): void;
  /** A run ended. */
  run(facts: { agent: string; finishReason: string }): void;
  readonly mcp: McpMetrics;
  /** A tool call ended. */
  toolCall(facts: { tool: string; outcome: string; durationMs: number }): void;
  /** Usage rows that wait to be written. */
  usageQueue(depth: number): void;
  /** A statement failed or took too long. */
  databaseError(): void;
  /** A notification to other replicas was sent or was not, or one of them arrived, or one that none of them sends. */
  notification(outcome: "sent" | "failed" | "received" | "ignored"): void;
  /** Whether notifications of other replicas arrive. */
  listenerUp(up: boolean): void;
  /** A response that streams began (+1) or ended (-1). */
  openStreams(change: 1 | -1): void;
  /** Shows what is counted at a gate from now on; gives what ends that. */
  gate(count: GateCount): () => void;
}

const REQUEST_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600];
const FIRST_TOKEN_SECONDS = [0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 30, 60];
const OVERHEAD_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];
const METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
]);

/** Makes the service's metrics in a registry of their own; nothing is collected by timers. */
export function createMetrics({ models = [], worker }: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker });
  const registers = [registry];
  const known = new Set(models);
  const bound = createLabelBound();

  const requests = createTallies({
    name: "loophub_http_requests_total",
    help: "Requests answered",
    labelNames: ["route", "method", "status"],
    registers,
  });
  const requestSeconds = new Histogram({
    name: "loophub_http_request_seconds",
    help: "Time from a request's headers to the end of its answer, in seconds",
    labelNames: ["route"],
    buckets: REQUEST_SECONDS,
    registers,
  });
  const attempts = createTallies({
    name: "loophub_upstream_attempts_total",
    help: "Tries at upstreams, by how they ended",
    labelNames: ["provider", "model", "outcome"],
    registers,
  });
  const firstTokenSeconds = new Histogram({
    name: "loophub_upstream_first_token_seconds",
    help: "Time from a request to the first content of its upstream, in seconds",
    labelNames: ["provider"],
    buckets: FIRST_TOKEN_SECONDS,
    registers,
  });
  const overheadSeconds = new Histogram({
    name: "loophub_overhead_seconds",
    help: "Time that the hub itself added to a request, in seconds",
    buckets: OVERHEAD_SECONDS,
    registers,
  });
  const tokens = createTallies({
    name: "loophub_tokens_total",
    help: "Tokens, as providers reported them, else as the hub estimated them",
    labelNames: ["provider", "model", "kind"],
    registers,
  });
  const unknownPrices = createTallies({
    name: "loophub_unknown_price_total",
    help: "Calls whose cost is unknown because their model has no price",
    labelNames: ["provider", "model"],
    registers,
  });
  const costs = createTallies({
    name: "loophub_cost_micros_total",
    help: "Cost of calls whose price is known, in millionths of a US dollar",
    labelNames: ["provider", "model"],
    registers,
  });
  const retries = createTallies({
    name: "loophub_retries_total",
    help: "Further tries of an upstream that failed",
    labelNames: ["provider", "model"],
    registers,
  });
  const failovers = createTallies({
    name: "loophub_failovers_total",
    help: "Requests that left an upstream that failed for the next one",
    labelNames: ["provider", "model"],
    registers,
  });
  const budgets = new Counter({
    name: "loophub_budget_events_total",
    help: "Calls refused, warned of or made unreserved, and reservations that expired",
    labelNames: ["event"],
    registers,
  });
  const runs = new Counter({
    name: "loophub_runs_total",
    help: "Runs that ended, by how",
    labelNames: ["agent", "finish_reason"],
    registers,
  });
  const queueDepth = new Gauge({
    name: "loophub_usage_queue_depth",
    help: "Usage rows that wait to be written",
    registers,
  });
  const databaseErrors = new Counter({
    name: "loophub_database_errors_total",
    help: "Statements that failed or took too long",
    registers,
  });
  const notifications = createTallies({
    name: "loophub_notifications_total",
    help: "Notifications between replicas, by what became of them",
    labelNames: ["outcome"],
    registers,
  });
  const notified = new Map<string, Tally>();
  const listener = new Gauge({
    name: "loophub_listener_up",
    help: "1 while notifications of other replicas arrive, else 0",
    registers,
  });
  const streams = new Gauge({
    name: "loophub_open_streams",
    help: "Streamed answers that are open",
    registers,
  });

  /** The series of one model of one provider; their number is bounded like that of labels. */
  interface TargetSeries {
    attempts: Map<string, Tally>;
    tokens: Map<string, Tally>;
    /** Counts that each model has one of. */
    single: Map<typeof costs, Tally>;
    labels: { provider: string; model: string };
  }
  const targets = new Map<string, Map<string, TargetSeries>>();
  const seriesOf = ({ provider, model }: { provider: string; model: string }) => {
    const label = bound("provider", provider);
    const models = remember(targets, label, () => new Map<string, TargetSeries>());
    const found = models.get(model);
    if (found !== undefined) return found;
    const name = known.has(`${provider}/${model}`) ? model : "other";
    return remember(models, name, () => ({
      attempts: new Map<string, Tally>(),
      tokens: new Map<string, Tally>(),
      single: new Map<typeof costs, Tally>(),
      labels: { provider: label, model: name },
    }));
  };
  const single = (make: typeof costs, facts: { provider: string; model: string }) => {
    const series = seriesOf(facts);
    return remember(series.single, make, () => make(series.labels));
  };
  const breakers = createBreakerMetrics({
    registers,
    models: known,
    labelsOf: (facts) => facts.model === "" ? { ...facts } : seriesOf(facts).labels,
  });
  const routes = new Map<string, Map<string, Map<number, Tally>>>();

  return {
    contentType: registry.contentType,
    mcp: createMcpMetrics(registers),
    render: () => registry.metrics(),
    know(models) {
      for (const model of models) known.add(model);
    },
    request({ route, method, status, durationMs }) {
      const label = bound("route", route);
      const methods = remember(routes, label, () => new Map<string, Map<number, Tally>>());
      const known = METHODS.has(method) ? method : "other";
      const statuses = remember(methods, known, () => new Map<number, Tally>());
      remember(statuses, status, () => requests({ route: label, method: known, status })).value++;
      requestSeconds.observe({ route: label }, toSeconds(durationMs));
    },
    upstreamAttempt(facts) {
      const series = seriesOf(facts);
      const outcome = bound("outcome", facts.outcome);
      remember(series.attempts, outcome, () => attempts({ ...series.labels, outcome })).value++;
    },
    firstToken: (provider, durationMs) =>
      firstTokenSeconds.observe({ provider: bound("provider", provider) }, toSeconds(durationMs)),
    overhead: (durationMs) => overheadSeconds.observe(toSeconds(durationMs)),
    tokens({ provider, model, kind, count }) {
      if (!(count > 0 && count < Infinity)) return;
      const series = seriesOf({ provider, model });
      remember(series.tokens, kind, () => tokens({ ...series.labels, kind })).value += count;
    },
    unknownPrice: (facts) => void single(unknownPrices, facts).value++,
    cost({ provider, model, micros }) {
      if (micros > 0 && micros < Infinity) single(costs, { provider, model }).value += micros;
    },
    retry: (facts) => void single(retries, facts).value++,
    failover: (facts) => void single(failovers, facts).value++,
    context: createContextMetrics({ registers, labelsOf: (facts) => seriesOf(facts).labels }),
    breakerOpened: breakers.opened,
    breakers: breakers.show,
    budget: (event) => budgets.inc({ event: bound("budget", event) }),
    cache: createCacheMetrics(registers),
    run: ({ agent, finishReason }) =>
      runs.inc({ agent: bound("agent", agent), finish_reason: bound("finish", finishReason) }),
    toolCall: createToolMetrics(registers),
    usageQueue: (depth) => queueDepth.set(Number.isFinite(depth) ? depth : 0),
    databaseError: () => databaseErrors.inc(),
    notification(outcome) {
      remember(notified, outcome, () => notifications({ outcome })).value++;
    },
    listenerUp: (up) => listener.set(up ? 1 : 0),
    openStreams: (change) => streams.inc(change),
    gate: createGateMetrics(registers),
  };
}
