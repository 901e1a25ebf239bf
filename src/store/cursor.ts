import { HubError } from "../core/error.ts";

/** A keyset cursor: opaque outside, the values of the last row's sort key inside. */
export function encodeCursor(key: readonly (string | number)[]): string {
  return btoa(JSON.stringify(key)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The values of a cursor that this hub gave out, one for each form. Throws `invalid_request` for any other text. */
export function decodeCursor(
  text: string,
  forms: readonly ((value: unknown) => boolean)[],
): (string | number)[] {
  try {
    const key: unknown = JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    if (
      Array.isArray(key) && key.length === forms.length &&
      forms.every((fits, index) => fits(key[index]))
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

/** True for a place in a list, as an `int` of Postgres holds it. */
export function isPosition(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 31;
}

/** True for a time of the calendar in UTC with microseconds, such as `2026-01-02T03:04:05.000006Z`. */
export function isExactTime(value: unknown): boolean {
  if (typeof value !== "string") return false;
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(value)) return false;
  const seconds = value.slice(0, 19);
  return new Date(`${seconds}Z`).toISOString().startsWith(seconds);
}
