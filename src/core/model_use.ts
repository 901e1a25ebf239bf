import { addCosts } from "./cost.ts";
import { isJsonObject, type Json } from "./json.ts";
import { addUsage, NO_USAGE, readUsage, type Usage } from "./usage.ts";

/** What model calls have used, as their usage rows have it. */
export interface ModelUse {
  usage: Usage;
  /** Null when a part of it is unknown. */
  costMicros: number | null;
  /** A part of it is an estimate of the hub's, since a provider did not say what it counted. */
  estimated: boolean;
}

/** Nothing. */
export const NO_USE: Readonly<ModelUse> = Object.freeze({
  usage: NO_USAGE,
  costMicros: 0,
  estimated: false,
});

/** The sum of two. */
export function addUse(a: ModelUse, b: ModelUse): ModelUse {
  return {
    usage: addUsage(a.usage, b.usage),
    costMicros: addCosts(a.costMicros, b.costMicros),
    estimated: a.estimated || b.estimated,
  };
}

/** What one has that the other has not, never below nothing. */
export function lessUse(all: ModelUse, counted: Omit<ModelUse, "estimated">): ModelUse {
  const less = (field: keyof Usage) =>
    Math.max(0, (all.usage[field] ?? 0) - (counted.usage[field] ?? 0));
  const written = less("cacheWriteTokens");
  const isUnknown = all.costMicros === null || counted.costMicros === null;
  return {
    usage: {
      promptTokens: less("promptTokens"),
      completionTokens: less("completionTokens"),
      totalTokens: less("promptTokens") + less("completionTokens"),
      cachedTokens: less("cachedTokens"),
      reasoningTokens: less("reasoningTokens"),
      ...written === 0 ? {} : { cacheWriteTokens: written },
    },
    costMicros: isUnknown ? null : Math.max(0, (all.costMicros ?? 0) - (counted.costMicros ?? 0)),
    estimated: all.estimated,
  };
}

/** Whether there is anything in it. */
export function isUsed({ usage, costMicros }: ModelUse): boolean {
  return usage.totalTokens > 0 || (costMicros ?? 0) > 0;
}

const LOST_CALLS = "lost-calls";

/** The event that adds model calls to a run whose answers are in none of its steps, such as those of a lost replica. */
export function lostCallsEvent({ usage, costMicros, estimated }: ModelUse) {
  const data = { usage: { ...usage }, costMicros, estimated };
  return { type: "data" as const, name: LOST_CALLS, data };
}

/** True for the `data` of such an event. */
export function isLostCalls({ name }: { name?: string }): boolean {
  return name === LOST_CALLS;
}

/** What such an event or part says; null for any other. */
export function readLostCalls(
  event: { type: string; name?: string; data?: Json },
): ModelUse | null {
  const { data } = event;
  if (event.type !== "data" || !isLostCalls(event) || !isJsonObject(data)) return null;
  const { usage, costMicros, estimated } = data;
  return {
    usage: readUsage(usage),
    costMicros: typeof costMicros === "number" ? costMicros : null,
    estimated: estimated === true,
  };
}
