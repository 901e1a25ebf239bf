import {
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
  type JsonSchema,
} from "../../core/json.ts";
import { refusal } from "../chat_fields.ts";
import { inlineRefs } from "../inline_refs.ts";
import { mapSubschemas } from "../map_subschemas.ts";

/**
 * A tool's parameters as `input_schema`: an object at the root without a choice there, by draft 2020-12. A choice at the
 * root becomes one object that admits all of it, and its words stand in the description.
 */
export function toInputSchema(parameters: JsonSchema | null, param: string): JsonSchema {
  if (parameters === null) return { type: "object", properties: {} };
  const schema = toDraft2020(parameters) as JsonSchema;
  const isPlain = schema["type"] === "object" &&
    !["$ref", "oneOf", "anyOf", "allOf"].some((name) => name in schema);
  if (isPlain) return schema;
  const whole = inlineRefs(schema, { recursion: "keep" });
  if (whole === null) {
    throw refusal(param, `${param} is too large once its references are written out`);
  }
  const flat = flatten(whole);
  if (flat === null) throw refusal(param, `${param} must describe an object`);
  const { oneOf, anyOf } = whole;
  if (oneOf === undefined && anyOf === undefined) return flat;
  const choice = JSON.stringify({
    ...(oneOf === undefined ? {} : { oneOf }),
    ...(anyOf === undefined ? {} : { anyOf }),
  });
  const before = typeof flat["description"] === "string" ? `${flat["description"]}\n\n` : "";
  return { ...flat, description: `${before}The input must match this JSON Schema: ${choice}` };
}

/** One object schema that admits what the schema does; null when that is no object. */
function flatten(schema: JsonSchema): JsonSchema | null {
  const { oneOf, anyOf, allOf, type = "object", ...rest } = schema;
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object"));
  if (!isObject) return null;
  const all = variantsOf(allOf);
  const choices = [variantsOf(oneOf), variantsOf(anyOf)].filter((variants) => variants.length > 0);
  const properties = new Map<string, Json>();
  const required = new Set<Json>();
  const add = (name: string, value: Json) => {
    const known = properties.get(name);
    const isNew = known === undefined || canonicalJson(known) === canonicalJson(value);
    properties.set(name, isNew ? value : { anyOf: [...alternativesOf(known), value] });
  };
  const takeProperties = ({ properties: own }: JsonSchema) => {
    if (isJsonObject(own)) { for (const [name, value] of Object.entries(own)) add(name, value); }
  };
  for (const part of [rest, ...all]) {
    takeProperties(part);
    for (const name of namesOf(part["required"])) required.add(name);
  }
  for (const variants of choices) {
    variants.forEach(takeProperties);
    const [first = [], ...others] = variants.map((variant) => namesOf(variant["required"]));
    for (const name of first) if (others.every((names) => names.includes(name))) required.add(name);
  }
  const isOpen = choices.length > 0 || all.length > 0;
  const { required: _, additionalProperties, ...beside } = rest;
  return {
    ...all.reduce((made, part) => ({ ...part, ...made }), {}),
    ...beside,
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.size === 0 ? {} : { required: [...required] }),
    // What closes one part would shut out the properties of the others.
    ...(isOpen || additionalProperties === undefined ? {} : { additionalProperties }),
  };
}

/** The object schemas of a choice, each flat; what is no object cannot be a tool's input. */
function variantsOf(list: Json | undefined): JsonSchema[] {
  if (!Array.isArray(list)) return [];
  return list.filter(isJsonObject).map(flatten).filter((variant) => variant !== null);
}

function alternativesOf(schema: Json): Json[] {
  const known = isJsonObject(schema) && Object.keys(schema).length === 1 ? schema["anyOf"] : null;
  return Array.isArray(known) ? known : [schema];
}

function namesOf(required: Json | undefined): Json[] {
  return Array.isArray(required) ? required : [];
}

/** Older drafts' words for tuples, exclusive bounds and dependencies in those of 2020-12, by which schemas are checked. */
export function toDraft2020(value: Json): Json {
  if (!isJsonObject(value)) return value;
  const { items, additionalItems, dependencies, ...schema } = mapSubschemas(value, toDraft2020);
  const made: JsonObject = { ...schema };
  if (Array.isArray(items)) {
    made["prefixItems"] = items;
    if (additionalItems !== undefined) made["items"] = additionalItems;
  } else if (items !== undefined) made["items"] = items;
  for (
    const [exclusive, bound] of [["exclusiveMinimum", "minimum"], [
      "exclusiveMaximum",
      "maximum",
    ]] as const
  ) {
    if (typeof made[exclusive] !== "boolean") continue;
    const isExclusive = made[exclusive] && made[bound] !== undefined;
    delete made[exclusive];
    if (!isExclusive) continue;
    made[exclusive] = made[bound] ?? null;
    delete made[bound];
  }
  if (isJsonObject(dependencies)) {
    for (const [name, needs] of Object.entries(dependencies)) {
      const word = Array.isArray(needs) ? "dependentRequired" : "dependentSchemas";
      const known = made[word];
      made[word] = { ...(isJsonObject(known) ? known : {}), [name]: needs };
    }
  }
  return made;
}
