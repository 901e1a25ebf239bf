import { canonicalJson, type Json } from "../core/json.ts";

/** True for equal JSON values; the order of keys does not matter. */
export function sameJson(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  return canonicalJson(a) === canonicalJson(b);
}

/** Values without those that equal one before; time grows with their text, and not with how many there are squared. */
export function distinctJson(values: readonly Json[]): Json[] {
  const known = new Set<string>();
  return values.filter((value) => known.size < known.add(canonicalJson(value)).size);
}
