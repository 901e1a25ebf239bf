import type { Registry } from "prom-client";
import { createLabelBound } from "./label_bound.ts";
import { createTallies, remember, type Tally } from "./tally.ts";

/** The response cache, as metrics show it: what became of requests that asked for it, and of their answers. */
export function createCacheMetrics(registers: Registry[]): (event: string) => void {
  const bound = createLabelBound();
  const known = new Map<string, Tally>();
  const events = createTallies({
    name: "loophub_response_cache_total",
    help: "Requests that asked for the response cache, and their answers, by what became of them",
    labelNames: ["event"],
    registers,
  });
  return (event) => {
    const label = bound("cache", event);
    remember(known, label, () => events({ event: label })).value++;
  };
}
