import { addCosts } from "../core/cost.ts";
import type { HubEvent } from "../core/event.ts";
import { addUse, lessUse, type ModelUse, NO_USE } from "../core/model_use.ts";
import { readSubRun } from "../core/sub_run_event.ts";
import { usageAfter, usedBeside } from "../core/used_beside.ts";
import { NO_USAGE, type Usage } from "../core/usage.ts";
import type { RowUse } from "../store/run_usage.ts";
import type { UsageRow } from "../store/usage_rows.ts";

/**
 * What the model calls of a run have used that its log does not have: those that former owners had under way when they
 * were lost, and those that were given up. `booked` are rows that are about to be written.
 */
export function lostCalls(
  rows: ReadonlyMap<string, RowUse>,
  { booked, events, costMicros }: {
    booked: readonly UsageRow[];
    events: readonly HubEvent[];
    /** What the log comes to; null when that is unknown. */
    costMicros: number | null;
  },
): ModelUse {
  const all = new Map([...rows].map(([id, { use }]) => [id, use]));
  for (const row of booked) {
    const known = rows.get(row.usageId);
    if (known === undefined || known.isOrphaned) all.set(row.usageId, useOf(row));
  }
  const sum = [...all.values()].reduce<ModelUse>(addUse, NO_USE);
  const own = events.filter((event) => readSubRun(event) === null);
  const usage = own.reduce<Usage>(usageAfter, NO_USAGE);
  const below = events.reduce<number | null>(
    (cost, event) => addCosts(cost, readSubRun(event)?.costMicros ?? 0),
    0,
  );
  const ownCost = costMicros === null || below === null ? null : costMicros - below;
  return lessUse(sum, { usage, costMicros: ownCost });
}

/** What steps have cost, with what was used beside them. */
export function withCostBeside(
  costMicros: number | null,
  events: readonly HubEvent[],
): number | null {
  return events.reduce<number | null>((sum, event) => {
    const used = usedBeside(event);
    return used === null ? sum : addCosts(sum, used.costMicros);
  }, costMicros);
}

function useOf({ usage, costMicros, estimated }: UsageRow): ModelUse {
  const known = usage ?? NO_USAGE;
  return {
    usage: { ...known, totalTokens: known.promptTokens + known.completionTokens },
    costMicros: usage === null ? costMicros ?? 0 : costMicros,
    estimated,
  };
}
