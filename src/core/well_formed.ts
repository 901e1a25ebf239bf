import { isJsonObject, type Json } from "./json.ts";

/** What JSON text has where a string holds a lone surrogate or NUL: nothing else is escaped so. */
const BROKEN_ESCAPE = /\\u(?:0000|d[89a-f][0-9a-f]{2})/i;

/**
 * The text with each lone surrogate and each NUL replaced by U+FFFD. Providers refuse whole requests for one of them,
 * and `jsonb` keeps neither, so a stored history and a live one would differ.
 */
export function wellFormedText(text: string): string {
  const wellFormed = text.toWellFormed();
  // `replaceAll` makes a tree of all the pieces, which takes seconds to walk for millions of them.
  return wellFormed.includes("\0") ? wellFormed.split("\0").join("\ufffd") : wellFormed;
}

/** The value with `wellFormedText` applied to all strings and keys; the same value when nothing is wrong with it. */
export function wellFormedJson(value: Json): Json {
  if (typeof value === "string") return wellFormedText(value);
  return isWellFormed(value) ? value : rewrite(value);
}

/** Whether `wellFormedText` changes nothing in a value. */
function isWellFormed(value: Json): boolean {
  if (typeof value === "string") return value.isWellFormed() && !value.includes("\0");
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  for (const name in value) {
    if (!isWellFormed(name) || !isWellFormed(value[name] ?? null)) return false;
  }
  return true;
}

/** The value as JSON text that `json` and `jsonb` take, whatever its strings hold. */
export function toStorableJson(value: unknown): string {
  const text = JSON.stringify(value);
  return hasBrokenEscape(text) ? JSON.stringify(rewrite(JSON.parse(text))) : text;
}

/** Whether JSON text has what `json` and `jsonb` do not take. */
export function hasBrokenEscape(json: string): boolean {
  return BROKEN_ESCAPE.test(json);
}

function rewrite(value: Json): Json {
  if (typeof value === "string") return wellFormedText(value);
  if (Array.isArray(value)) return value.map(rewrite);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [wellFormedText(key), rewrite(item)]),
  );
}
