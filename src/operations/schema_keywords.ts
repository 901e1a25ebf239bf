import type { Json, JsonObject } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { distinctJson } from "./same_json.ts";

/** The JSON Schema types. */
export const JSON_TYPES: readonly string[] = [
  "string",
  "number",
  "integer",
  "boolean",
  "object",
  "array",
  "null",
];

/** The formats that model APIs know (OpenAI's guide to structured outputs); others make some refuse the request. */
export const KNOWN_FORMATS: ReadonlySet<string> = new Set([
  "date",
  "date-time",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "time",
  "uuid",
]);

const COUNTS = new Set([
  "maxItems",
  "maxLength",
  "maxProperties",
  "minItems",
  "minLength",
  "minProperties",
]);
const NUMBERS = new Set(["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"]);
const MAX_PATTERN = 1000;
const MAX_LITERAL_DEPTH = 16;

/** Keywords that hold no schema, checked: undefined for those that are wrong, unknown or of no use to a model. */
export function copyKeyword(keyword: string, value: Json): Json | undefined {
  if (COUNTS.has(keyword)) return isCount(value) ? value : undefined;
  if (NUMBERS.has(keyword)) return typeof value === "number" ? value : undefined;
  switch (keyword) {
    case "title":
    case "description":
      return typeof value === "string" ? value : undefined;
    case "const":
    case "default":
      return copyLiteral(value);
    case "enum":
      return copyEnum(value);
    case "format":
      return typeof value === "string" && KNOWN_FORMATS.has(value) ? value : undefined;
    case "pattern":
      return typeof value === "string" && isPortablePattern(value) ? value : undefined;
    case "multipleOf":
      return typeof value === "number" && value > 0 ? value : undefined;
    case "uniqueItems":
      return value === true ? true : undefined;
    default:
      return undefined;
  }
}

/** The types a schema names, `nullable` of OpenAPI included; undefined when it names none. */
export function copyTypes(schema: JsonObject): Json | undefined {
  const types = [...new Set(listOf(schema.type))].filter((type) => JSON_TYPES.includes(type));
  if (types.length > 0 && schema.nullable === true && !types.includes("null")) types.push("null");
  return types.length > 1 ? types : types[0];
}

/** Draft 4 wrote `minimum: 0, exclusiveMinimum: true`; since draft 6 it is `exclusiveMinimum: 0`. */
export function liftExclusiveBounds(schema: JsonObject): JsonObject {
  const lifted = { ...schema };
  for (
    const [exclusive, inclusive] of [
      ["exclusiveMinimum", "minimum"],
      ["exclusiveMaximum", "maximum"],
    ] as const
  ) {
    if (typeof lifted[exclusive] !== "boolean") continue;
    const bound = lifted[inclusive];
    const applies = lifted[exclusive] === true && bound !== undefined;
    delete lifted[exclusive];
    if (!applies) continue;
    lifted[exclusive] = bound;
    delete lifted[inclusive];
  }
  return lifted;
}

/** True for expressions that mean the same to the engines behind model APIs; the expression is compiled, not run. */
export function isPortablePattern(pattern: string): boolean {
  if (pattern.length > MAX_PATTERN || /\(\?(?!:)|\\[pPuxkc1-9]/.test(pattern)) return false;
  try {
    new RegExp(pattern, "u");
    return true;
  } catch {
    return false;
  }
}

function isCount(value: Json): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

function copyEnum(value: Json): Json | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const copies = value.map((entry) => copyLiteral(entry));
  const choices = distinctJson(copies.filter((copy) => copy !== undefined));
  return choices.length === 0 ? undefined : choices;
}

/** A deep copy; undefined when the value nests deeper than a literal of a schema may. */
function copyLiteral(value: Json, depth = 0): Json | undefined {
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_LITERAL_DEPTH) return undefined;
  if (Array.isArray(value)) {
    const entries = value.map((entry) => copyLiteral(entry, depth + 1));
    return entries.every((entry) => entry !== undefined) ? entries : undefined;
  }
  const copy: [string, Json][] = [];
  for (const [key, entry] of Object.entries(value)) {
    const child = copyLiteral(entry, depth + 1);
    if (child === undefined) return undefined;
    copy.push([key, child]);
  }
  return Object.fromEntries(copy);
}
