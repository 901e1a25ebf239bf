import { FormatRegistry, type Static, type TTuple, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { HubError } from "../core/error.ts";

const EXACT_TIME = "loophub-exact-time";
FormatRegistry.Set(EXACT_TIME, isExactTime);

/** A time of the calendar in UTC with microseconds, such as `2026-01-02T03:04:05.000006Z`. */
export const ExactTime = Type.String({ format: EXACT_TIME });

/** A keyset cursor: opaque outside, the values of the last row's sort key inside. */
export function encodeCursor(key: readonly (string | number)[]): string {
  return btoa(JSON.stringify(key)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The values of a cursor of this list. Throws `invalid_request` for any other text. */
export function decodeCursor<K extends TTuple>(text: string, key: K): Static<K> {
  try {
    const value: unknown = JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    if (Value.Check(key, value)) return value;
  } catch {
    // Falls through to the one error below.
  }
  throw new HubError(
    "invalid_request",
    "after must be the next_cursor of an earlier page",
    { param: "after" },
  );
}

function isExactTime(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(text)) return false;
  // The constructor lets days run over into the next month.
  const seconds = text.slice(0, 19);
  return new Date(`${seconds}Z`).toISOString().startsWith(seconds);
}
