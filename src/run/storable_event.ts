import type { HubEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";

/**
 * The event as Postgres can keep it: `jsonb` has no NUL and no lone surrogates, so both become U+FFFD. It happens
 * before an event gets its number, so that what clients saw and what the log holds are the same bytes.
 */
export function storableEvent(event: HubEvent): HubEvent {
  if (
    (event.type === "text-delta" || event.type === "reasoning-delta")
  ) {
    return isStorable(event.delta) ? event : { ...event, delta: storableText(event.delta) };
  }
  const text = JSON.stringify(event);
  // `JSON.stringify` writes NUL and lone surrogates, and only those, as these escapes.
  if (!/\\u(0000|d[89a-f][0-9a-f]{2})/.test(text)) return event;
  return storableValue(event as unknown as Json) as unknown as HubEvent;
}

/** The text without NUL and lone surrogates. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

function storableValue(value: Json): Json {
  if (typeof value === "string") return storableText(value);
  if (Array.isArray(value)) return value.map(storableValue);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [storableText(key), storableValue(item)]),
    );
  }
  return value;
}
