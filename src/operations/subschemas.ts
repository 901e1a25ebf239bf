import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { escapeToken } from "./json_pointer.ts";

/** Keywords whose value is one schema (draft 2020-12 and the older spellings tools still use). */
export const SINGLE_KEYWORDS: ReadonlySet<string> = new Set([
  "additionalItems",
  "additionalProperties",
  "contains",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
]);

/** Keywords whose value is a list of schemas. */
export const LIST_KEYWORDS: ReadonlySet<string> = new Set([
  "allOf",
  "anyOf",
  "items",
  "oneOf",
  "prefixItems",
]);

/** Keywords whose value maps names to schemas. */
export const MAP_KEYWORDS: ReadonlySet<string> = new Set([
  "$defs",
  "definitions",
  "dependentSchemas",
  "patternProperties",
  "properties",
]);

const MAX_DEPTH = 64;
const MAX_NODES = 20_000;

/**
 * Visits every object schema of a document, the root first, with its JSON pointer. Literal payloads (`enum`,
 * `const`, `default`, `examples`) are not schemas and are left alone. Bounded in depth and number.
 */
export function eachSubschema(
  root: Json,
  visit: (schema: JsonObject, pointer: string) => void,
): void {
  let nodes = 0;
  const walk = (value: Json | undefined, pointer: string, depth: number) => {
    if (!isJsonObject(value) || depth > MAX_DEPTH || ++nodes > MAX_NODES) return;
    visit(value, pointer);
    for (const [keyword, child] of Object.entries(value)) {
      const place = `${pointer}/${escapeToken(keyword)}`;
      if (Array.isArray(child)) {
        if (!LIST_KEYWORDS.has(keyword)) continue;
        child.forEach((entry, index) => walk(entry, `${place}/${index}`, depth + 1));
      } else if (MAP_KEYWORDS.has(keyword)) {
        if (!isJsonObject(child)) continue;
        for (const [name, entry] of Object.entries(child)) {
          walk(entry, `${place}/${escapeToken(name)}`, depth + 1);
        }
      } else if (SINGLE_KEYWORDS.has(keyword)) {
        walk(child, place, depth + 1);
      }
    }
  };
  walk(root, "", 0);
}
