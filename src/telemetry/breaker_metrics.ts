import { Counter, Gauge, type Registry } from "prom-client";

/** How a target stands that has failed: `open` rests, `half_open` waits for its probe. */
export type BreakerState = "open" | "half_open";

/** Who keeps the breakers: targets by `provider/model`, keys of pools by names of their own. */
export interface Breakers {
  states(): Iterable<readonly [id: string, state: BreakerState]>;
}

/** What the series of breakers are made with. */
export interface BreakerMetricsOptions {
  registers: Registry[];
  /** Configured models as `provider/model`; their breakers are shown while they are closed too. */
  models: ReadonlySet<string>;
  /** Labels of a model, bounded. */
  labelsOf(facts: { provider: string; model: string }): { provider: string; model: string };
}

const VALUES: Readonly<Record<BreakerState, number>> = { half_open: 1, open: 2 };

/** Where a name has a key of a pool in it, as `provider#2` or behind a model: `provider/model provider#2`. */
const KEY = /(?:^| )([^ /#]+)#\d+$/;

/** Makes the series of breakers. */
export function createBreakerMetrics({ registers, models, labelsOf }: BreakerMetricsOptions): {
  opened(id: string): void;
  show(breakers: Breakers): void;
} {
  const labelNames = ["provider", "model", "of"];
  let shown: Breakers | null = null;
  const labels = (id: string) => {
    const provider = KEY.exec(id)?.[1];
    const [target = ""] = id.split(" ", 1);
    const slash = target.indexOf("/");
    const of = provider === undefined ? "target" : "key";
    if (slash === -1) return { ...labelsOf({ provider: provider ?? target, model: "" }), of };
    const facts = { provider: target.slice(0, slash), model: target.slice(slash + 1) };
    return { ...labelsOf(facts), of };
  };
  new Gauge({
    name: "loophub_breaker_state",
    help: "Whether a model or a key of a pool may be tried: 0 yes, 1 by a probe, 2 it rests",
    labelNames,
    registers,
    collect() {
      this.reset();
      const found = new Map<string, number>();
      for (const id of models) found.set(JSON.stringify(labels(id)), 0);
      for (const [id, state] of shown?.states() ?? []) {
        const series = JSON.stringify(labels(id));
        found.set(series, Math.max(found.get(series) ?? 0, VALUES[state]));
      }
      for (const [series, value] of found) this.set(JSON.parse(series), value);
    },
  });
  const opened = new Counter({
    name: "loophub_breaker_opened_total",
    help: "Times a model or a key of a pool was sent to rest",
    labelNames,
    registers,
  });
  return {
    opened: (id) => opened.inc(labels(id)),
    show: (breakers) => void (shown = breakers),
  };
}
