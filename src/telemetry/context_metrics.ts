import { Gauge, type Registry } from "prom-client";
import { createTallies, remember, type Tally } from "./tally.ts";

/** Room that a run's request leaves, and what was done where there was too little. */
export interface ContextFact {
  provider: string;
  model: string;
  remainingTokens: number;
  event?: { trigger: string; outcome: string };
}

/** What keeps conversations within what models can read, as metrics show it. */
export function createContextMetrics(
  { registers, labelsOf }: {
    registers: Registry[];
    labelsOf(facts: { provider: string; model: string }): { provider: string; model: string };
  },
): (fact: ContextFact) => void {
  const known = new Map<string, Tally>();
  const events = createTallies({
    name: "loophub_context_guard_events_total",
    help: "Conversations of runs that had no room left in their model's window, by what was done",
    labelNames: ["provider", "model", "trigger", "outcome"],
    registers,
  });
  const remaining = new Gauge({
    name: "loophub_context_guard_remaining_tokens",
    help: "Room that the latest request of a run left, in tokens; below 0 where there was none",
    labelNames: ["provider", "model"],
    registers,
  });
  return ({ remainingTokens, event, ...target }) => {
    const labels = labelsOf(target);
    remaining.set(labels, Number.isFinite(remainingTokens) ? remainingTokens : 0);
    if (event === undefined) return;
    const key = [labels.provider, labels.model, event.trigger, event.outcome].join(" ");
    remember(known, key, () => events({ ...labels, ...event })).value++;
  };
}
