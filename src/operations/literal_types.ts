import type { Json, JsonObject } from "../core/json.ts";

/** The JSON types of a schema's `const` or `enum` values, each once; empty when it has neither. */
export function typesOfLiterals(schema: JsonObject): string[] {
  const literals = schema.const !== undefined
    ? [schema.const]
    : Array.isArray(schema.enum)
    ? schema.enum
    : [];
  const types = new Set(literals.map(typeOf));
  if (types.has("number")) types.delete("integer");
  return [...types];
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}
