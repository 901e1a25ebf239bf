import { isJsonObject, type Json } from "./json.ts";
import { readUsage, type Usage } from "./usage.ts";

/** What a model has used that a server had asked in the middle of a run's call. */
export interface Sampled {
  toolCallId: string;
  /** Public name. */
  model: string;
  usage: Usage;
  /** Null when it is unknown. */
  costMicros: number | null;
  /** A part of it is an estimate. */
  estimated?: boolean;
}

const SAMPLING = "sampling";

/** The event that adds it to the run. A call may have several: none takes another's place. */
export function samplingEvent({ usage, ...facts }: Sampled) {
  return { type: "data" as const, name: SAMPLING, data: { ...facts, usage: { ...usage } } };
}

/** True for the `data` of such an event. */
export function isSampling({ name }: { name?: string }): boolean {
  return name === SAMPLING;
}

/** What such an event or part says; null for any other. */
export function readSampling(
  event: { type: string; name?: string; data?: Json },
): Sampled | null {
  const { data } = event;
  if (event.type !== "data" || !isSampling(event) || !isJsonObject(data)) return null;
  const { usage, costMicros } = data;
  return {
    toolCallId: String(data["toolCallId"]),
    model: String(data["model"]),
    usage: readUsage(usage),
    costMicros: typeof costMicros === "number" ? costMicros : null,
    ...data["estimated"] === true ? { estimated: true } : {},
  };
}
