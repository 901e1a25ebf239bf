import { isJsonObject, type JsonObject } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { sameJson } from "./same_json.ts";
import { isPortablePattern, KNOWN_FORMATS } from "./schema_keywords.ts";
import { eachSubschema } from "./subschemas.ts";

const KEYWORDS: ReadonlySet<string> = new Set([
  "$defs",
  "$ref",
  "additionalProperties",
  "anyOf",
  "const",
  "description",
  "enum",
  "exclusiveMaximum",
  "exclusiveMinimum",
  "format",
  "items",
  "maximum",
  "maxItems",
  "minimum",
  "minItems",
  "multipleOf",
  "pattern",
  "properties",
  "required",
  "type",
]);

const MAX_LEVELS = 10;
const MAX_PROPERTIES = 5000;
const MAX_ENUM_VALUES = 1000;
const MAX_NAME_CHARS = 120_000;
const MAX_LONG_ENUM = 250;
const MAX_LONG_ENUM_CHARS = 15_000;

/**
 * True when a schema keeps the rules of OpenAI's strict mode (guide "Structured model outputs", supported schemas):
 * known keywords, a type everywhere, at most 10 levels, 5000 properties, 1000 enum values and 120,000 characters of
 * names and literals, and object branches of a union that can be told apart by their first property.
 */
export function followsStrictRules(schema: JsonObject): boolean {
  let fits = schema.type === "object" && schema.anyOf === undefined;
  let properties = 0;
  let enumValues = 0;
  let chars = 0;
  eachSubschema(schema, (part, pointer) => {
    const names = isJsonObject(part.properties) ? Object.keys(part.properties) : [];
    const definitions = isJsonObject(part.$defs) ? Object.keys(part.$defs) : [];
    const literals = [...Array.isArray(part.enum) ? part.enum : [], part.const]
      .filter((value) => typeof value === "string");
    const literalChars = literals.reduce((sum, text) => sum + text.length, 0);
    properties += names.length;
    chars += [...names, ...definitions].reduce((sum, text) => sum + text.length, literalChars);
    if (Array.isArray(part.enum)) {
      enumValues += part.enum.length;
      if (part.enum.length > MAX_LONG_ENUM && literalChars > MAX_LONG_ENUM_CHARS) fits = false;
    }
    fits &&= levelsOf(pointer) <= MAX_LEVELS && isStrictPart(part);
  });
  return fits && properties <= MAX_PROPERTIES && enumValues <= MAX_ENUM_VALUES &&
    chars <= MAX_NAME_CHARS;
}

function levelsOf(pointer: string): number {
  return pointer.split("/").filter((token) => token === "properties" || token === "items").length;
}

function isStrictPart(part: JsonObject): boolean {
  if (!Object.keys(part).every((keyword) => KEYWORDS.has(keyword))) return false;
  if (part.type === undefined && part.anyOf === undefined && part.$ref === undefined) return false;
  if (part.$ref !== undefined && Object.keys(part).length > 1) return false;
  if (typeof part.format === "string" && !KNOWN_FORMATS.has(part.format)) return false;
  if (typeof part.pattern === "string" && !isPortablePattern(part.pattern)) return false;
  if (listOf(part.type).includes("object")) {
    if (part.additionalProperties !== false || !isJsonObject(part.properties)) return false;
    const required = listOf(part.required);
    if (!Object.keys(part.properties).every((name) => required.includes(name))) return false;
  }
  return !Array.isArray(part.anyOf) || tellsBranchesApart(part.anyOf.filter(isJsonObject));
}

/** OpenAI refuses object branches that begin with the same property, unless its literal differs. */
function tellsBranchesApart(branches: JsonObject[]): boolean {
  const firsts = branches.flatMap(({ properties }) => {
    const [first] = isJsonObject(properties) ? Object.entries(properties) : [];
    return first === undefined ? [] : [{ name: first[0], schema: first[1] }];
  });
  return firsts.every((one, index) =>
    firsts.slice(index + 1).every((other) => {
      if (one.name !== other.name) return true;
      if (!isJsonObject(one.schema) || !isJsonObject(other.schema)) return false;
      const [a, b] = [one.schema.const, other.schema.const];
      return a !== undefined && b !== undefined && !sameJson(a, b);
    })
  );
}
