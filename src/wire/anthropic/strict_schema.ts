import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { inlineRefs } from "../inline_refs.ts";

/** What a schema takes of what one request may have. */
export interface SchemaCost {
  /** Properties that may be left out. */
  optional: number;
  /** Places with more than one type. */
  unions: number;
}

/** A schema that answers or calls can be held to. */
export interface StrictSchema extends SchemaCost {
  schema: JsonSchema;
}

/** What the strict schemas of one request may have together. */
export const STRICT_BOUNDS: SchemaCost = { optional: 24, unions: 16 };

const FORMATS: ReadonlySet<Json> = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "uri",
  "ipv4",
  "ipv6",
  "uuid",
]);
/** Members that pass as they are. */
const PLAIN: ReadonlySet<string> = new Set(["title", "description", "default", "type", "required"]);
/** Members that bound a value without changing its shape; they go into the description. */
const BOUNDS: ReadonlySet<string> = new Set([
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "minLength",
  "maxLength",
  "pattern",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
  "format",
]);
const IGNORED: ReadonlySet<string> = new Set([
  "$schema",
  "$id",
  "$comment",
  "examples",
  "nullable",
]);

/**
 * The schema in the part of JSON Schema that Anthropic's structured outputs know, closed everywhere, with bounds of
 * values in descriptions. Null for one that cannot be said so: open objects, references to themselves, tuples, conditions.
 */
export function toStrictSchema(root: JsonSchema): StrictSchema | null {
  const cost: SchemaCost = { optional: 0, unions: 0 };
  const whole = inlineRefs(root, { recursion: "keep" });
  if (whole === null || "$defs" in whole) return null;
  const schema = restrict(whole, cost);
  return schema === null ? null : { schema, ...cost };
}

function restrict(value: Json | undefined, cost: SchemaCost): JsonSchema | null {
  if (!isJsonObject(value)) return null;
  const made: JsonObject = {};
  const bounds: string[] = [];
  for (const [name, item] of Object.entries(value)) {
    if (PLAIN.has(name)) made[name] = item;
    else if (name === "enum" || name === "const") {
      const values = Array.isArray(item) ? item : [item];
      if (values.some((one) => typeof one === "object" && one !== null)) return null;
      made[name] = item;
    } else if (name === "anyOf" || name === "oneOf" || name === "allOf") {
      const list = Array.isArray(item) ? item.map((one) => restrict(one, cost)) : [null];
      if (list.includes(null)) return null;
      if (name !== "allOf") cost.unions++;
      made[name === "oneOf" ? "anyOf" : name] = list;
    } else if (name === "items") {
      const items = restrict(item, cost);
      if (items === null) return null;
      made[name] = items;
    } else if (name === "properties" && isJsonObject(item)) {
      const properties = restrictAll(item, cost);
      if (properties === null) return null;
      made[name] = properties;
    } else if (BOUNDS.has(name)) {
      const isKnown = (name === "format" && FORMATS.has(item)) ||
        (name === "minItems" && (item === 0 || item === 1));
      if (isKnown) made[name] = item;
      else bounds.push(`${name}: ${JSON.stringify(item)}`);
    } else if (name !== "additionalProperties" && !IGNORED.has(name)) return null;
  }
  if (bounds.length > 0) {
    const before = typeof made["description"] === "string" ? `${made["description"]}\n\n` : "";
    made["description"] = `${before}{${bounds.join(", ")}}`;
  }
  const { type } = made;
  if (Array.isArray(type)) cost.unions++;
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object")) ||
    "properties" in made;
  if (isObject) return closed(made, value["additionalProperties"], cost);
  const says = ["type", "enum", "const", "anyOf", "allOf"].some((name) => name in made);
  return says ? made : null;
}

function restrictAll(properties: JsonObject, cost: SchemaCost): JsonObject | null {
  const made: JsonObject = {};
  for (const [name, item] of Object.entries(properties)) {
    const property = restrict(item, cost);
    if (property === null) return null;
    made[name] = property;
  }
  return made;
}

/** The object schema without room for further properties; null when its point is to have them. */
function closed(
  schema: JsonObject,
  further: Json | undefined,
  cost: SchemaCost,
): JsonSchema | null {
  const properties = isJsonObject(schema["properties"]) ? schema["properties"] : {};
  const names = Object.keys(properties);
  const isOpen = further === true || isJsonObject(further) ||
    (further === undefined && names.length === 0);
  if (isOpen) return null;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  cost.optional += names.filter((name) => !required.includes(name)).length;
  return { ...schema, properties, additionalProperties: false };
}
