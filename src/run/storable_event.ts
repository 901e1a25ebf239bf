import type { HubEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";

/**
 * The event as Postgres can keep it, without NUL and lone surrogates. It happens before an event gets its number, so
 * that what clients saw and what the log holds are the same bytes.
 */
export function storableEvent(event: HubEvent): HubEvent {
  if (event.type === "text-delta" || event.type === "reasoning-delta") {
    const delta = wellFormedText(event.delta);
    return delta === event.delta ? event : { ...event, delta };
  }
  return wellFormedJson(event as unknown as Json) as unknown as HubEvent;
}
