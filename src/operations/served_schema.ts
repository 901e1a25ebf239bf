import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import { normalizeSchema } from "./normalize_schema.ts";
import { createRefResolver } from "./schema_ref.ts";
import { eachSubschema, LIST_KEYWORDS, MAP_KEYWORDS, SINGLE_KEYWORDS } from "./subschemas.ts";

const TYPES: ReadonlySet<Json> = new Set([
  "array",
  "boolean",
  "integer",
  "null",
  "number",
  "object",
  "string",
]);
/** Keywords whose value may be `true` or `false` for every client. */
const FLAGS: ReadonlySet<string> = new Set([
  "additionalItems",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
]);
const NUMBERS: ReadonlySet<string> = new Set([
  "exclusiveMaximum",
  "exclusiveMinimum",
  "maxItems",
  "maxLength",
  "maxProperties",
  "maximum",
  "minItems",
  "minLength",
  "minProperties",
  "minimum",
  "multipleOf",
]);
const TEXTS: ReadonlySet<string> = new Set(["description", "format", "title"]);
/** Names and anchors: clients that compile the schemas of several tools together refuse a name that comes twice. */
const NAMES: ReadonlySet<string> = new Set([
  "$anchor",
  "$dynamicAnchor",
  "$dynamicRef",
  "$id",
  "$recursiveAnchor",
  "$recursiveRef",
]);

/**
 * The schema of a tool's input as MCP clients take it. They refuse a whole list of tools for one schema that is legal and
 * odd, or broken: such a one is repaired, as it is for models; any other stays as it is.
 */
export function servedInputSchema(schema: JsonSchema): JsonSchema {
  return findOddity(schema) === null ? schema : normalizeSchema(schema).schema;
}

/** The same of a tool's output; null where a repaired schema would not say the same, so that results could break it. */
export function servedOutputSchema(schema: JsonSchema): JsonSchema | null {
  if (findOddity(schema) === null) return schema;
  const { schema: repaired, exact } = normalizeSchema(schema);
  return exact ? repaired : null;
}

/** What some client would not take of a schema, as a JSON pointer and words; null for one that all take. */
export function findOddity(schema: JsonSchema): string | null {
  if (schema["type"] !== "object") return "the root is no object";
  for (const keyword of ["allOf", "anyOf", "oneOf", "not", "enum", "$ref"]) {
    if (schema[keyword] !== undefined) return `${keyword} at the root`;
  }
  const resolve = createRefResolver(schema);
  let found: string | null = null;
  eachSubschema(schema, (part, pointer) => {
    if (found !== null) return;
    for (const [keyword, value] of Object.entries(part)) {
      const isDangling = keyword === "$ref" &&
        (typeof value !== "string" || !value.startsWith("#") || resolve(value) === null);
      if (isDangling || !isSound(keyword, value)) found = `${pointer}/${keyword}`;
    }
  });
  return found;
}

function isSound(keyword: string, value: Json): boolean {
  if (NAMES.has(keyword) || keyword === "__proto__") return false;
  if (keyword === "type") return isType(value);
  if (keyword === "required") {
    return Array.isArray(value) && value.every((name) => typeof name === "string");
  }
  if (keyword === "enum") return Array.isArray(value) && value.length > 0;
  if (keyword === "pattern") return isPattern(value);
  if (NUMBERS.has(keyword)) return typeof value === "number";
  if (TEXTS.has(keyword)) return typeof value === "string";
  if (FLAGS.has(keyword)) return typeof value === "boolean" || isJsonObject(value);
  if (MAP_KEYWORDS.has(keyword)) return isMap(keyword, value);
  // A tuple in `items` is of an older draft, which Anthropic's API refuses.
  if (SINGLE_KEYWORDS.has(keyword)) return isJsonObject(value);
  if (LIST_KEYWORDS.has(keyword)) {
    return Array.isArray(value) && value.length > 0 && value.every(isJsonObject);
  }
  return true;
}

function isType(value: Json): boolean {
  if (!Array.isArray(value)) return TYPES.has(value);
  return value.length > 0 && value.every((one) => TYPES.has(one));
}

function isMap(keyword: string, value: Json): boolean {
  if (!isJsonObject(value) || !Object.values(value as JsonObject).every(isJsonObject)) return false;
  if (Object.hasOwn(value, "__proto__")) return false;
  return keyword !== "patternProperties" || Object.keys(value).every(isPattern);
}

/** Whether a client can compile the expression; it is not run here. */
function isPattern(value: Json): boolean {
  if (typeof value !== "string") return false;
  try {
    new RegExp(value, "u");
    return true;
  } catch {
    return false;
  }
}
