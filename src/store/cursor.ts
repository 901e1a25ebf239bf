import { HubError } from "../core/error.ts";

/** A keyset cursor: opaque outside, the values of the last row's sort key inside. */
export function encodeCursor(key: readonly (string | number)[]): string {
  return btoa(JSON.stringify(key)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The values of a cursor that this hub gave out. Throws `invalid_request` for any other text. */
export function decodeCursor(text: string, length: number): (string | number)[] {
  try {
    const key: unknown = JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    if (
      Array.isArray(key) && key.length === length &&
      key.every((item) => typeof item === "string" || typeof item === "number")
    ) return key;
  } catch {
    // Falls through to the one error below.
  }
  throw new HubError(
    "invalid_request",
    "after must be the next_cursor of an earlier page",
    { param: "after" },
  );
}
