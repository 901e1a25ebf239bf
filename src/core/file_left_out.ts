import type { HubEvent } from "./event.ts";
import type { ModelEvent } from "./model.ts";

/** The `data` event that says that a file of the model was left out, and why. */
export function fileLeftOutEvent(
  { mediaType, bytes, reason }: Extract<ModelEvent, { type: "file-left-out" }>,
): HubEvent {
  return { type: "data", name: "file-left-out", data: { mediaType, bytes, reason } };
}
