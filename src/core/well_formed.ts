import { isJsonObject, type Json } from "./json.ts";

/** What JSON text has where a string holds a lone surrogate or NUL: nothing else is escaped so. */
const BROKEN_ESCAPE = /\\u(?:0000|d[89a-f][0-9a-f]{2})/i;

/**
 * The text with each lone surrogate and each NUL replaced by U+FFFD. Providers refuse whole requests for one of them,
 * and `jsonb` keeps neither, so a stored history and a live one would differ.
 */
export function wellFormedText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

/** The value with `wellFormedText` applied to all strings and keys; the same value when nothing is wrong with it. */
export function wellFormedJson(value: Json): Json {
  if (typeof value === "string") return wellFormedText(value);
  if (typeof value !== "object" || value === null) return value;
  return BROKEN_ESCAPE.test(JSON.stringify(value)) ? rewrite(value) : value;
}

/** The value as JSON text that `json` and `jsonb` take, whatever its strings hold. */
export function toStorableJson(value: unknown): string {
  const text = JSON.stringify(value);
  return BROKEN_ESCAPE.test(text) ? JSON.stringify(rewrite(JSON.parse(text))) : text;
}

function rewrite(value: Json): Json {
  if (typeof value === "string") return wellFormedText(value);
  if (Array.isArray(value)) return value.map(rewrite);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [wellFormedText(key), rewrite(item)]),
  );
}
