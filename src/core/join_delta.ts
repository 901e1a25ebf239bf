import type { HubEvent } from "./event.ts";

/** An event that continues a part. */
export type DeltaEvent = Extract<
  HubEvent,
  { type: "text-delta" | "reasoning-delta" | "tool-input-delta" }
>;

/** Appends to the delta that this read already has for the part, else adds one. Starts always stand before it. */
export function joinDelta(
  written: HubEvent[],
  deltas: Map<string, DeltaEvent>,
  event: DeltaEvent,
): void {
  const key = event.type === "tool-input-delta" ? `c:${event.toolCallId}` : `p:${event.id}`;
  const known = deltas.get(key);
  if (known === undefined) {
    deltas.set(key, event);
    written.push(event);
  } else if (known.type === "tool-input-delta") {
    if (event.type === "tool-input-delta") known.inputTextDelta += event.inputTextDelta;
  } else if (event.type !== "tool-input-delta") known.delta += event.delta;
}
