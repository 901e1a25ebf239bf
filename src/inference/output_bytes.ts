import type { HubEvent } from "../core/event.ts";
import { utf8Length } from "../telemetry/utf8_length.ts";

/** Bytes that an event adds to what a run has written. */
export function outputBytesOf(event: HubEvent): number {
  switch (event.type) {
    case "text-delta":
    case "reasoning-delta":
      return utf8Length(event.delta);
    case "tool-input-available":
      return utf8Length(JSON.stringify(event.input));
    case "tool-output-available":
      return utf8Length(JSON.stringify(event.output));
    case "tool-input-error":
    case "tool-output-error":
    case "tool-output-denied":
      return utf8Length(event.errorText);
    default:
      return 0;
  }
}
