import type { Static, TTuple } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { HubError } from "../core/error.ts";

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
