import { toStrictJsonSchema } from "openai/lib/transform";
import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { copyTypes } from "./schema_keywords.ts";
import { followsStrictRules } from "./strict_rules.ts";
import { typesOfLiterals } from "./literal_types.ts";

/**
 * The strict form of a normalised schema: every object closed, every property required, optional ones united with null,
 * keywords that strict mode refuses told in the description instead. Null when there is no such form, by the rules of
 * `openai/lib/transform` (which makes it) and of OpenAI's guide to structured outputs (which it is checked against).
 * Arguments made for it may hold nulls that the source does not know; see `dropNulls` in `validate_input.ts`.
 */
export function toStrictSchema(schema: JsonSchema): JsonSchema | null {
  try {
    const strict: unknown = JSON.parse(JSON.stringify(toStrictJsonSchema(widen(schema))));
    return isJsonObject(strict) && followsStrictRules(strict) ? strict : null;
  } catch {
    return null;
  }
}

/** Keywords strict mode refuses, and how the model is told of them. */
const TOLD: Readonly<Record<string, (value: Json) => string>> = {
  default: (value) => `Default: ${JSON.stringify(value)}`,
  minLength: (value) => `At least ${counted(value, "characters")}`,
  maxLength: (value) => `At most ${counted(value, "characters")}`,
  minProperties: (value) => `At least ${counted(value, "properties")}`,
  maxProperties: (value) => `At most ${counted(value, "properties")}`,
  uniqueItems: () => "No item twice",
};

function counted(value: Json, things: string): string {
  return value === 1
    ? `1 ${things === "characters" ? "character" : "property"}`
    : `${value} ${things}`;
}

function widen(source: JsonObject): JsonObject {
  const copy: JsonObject = {};
  const told: string[] = [];
  for (const [keyword, value] of Object.entries(source)) {
    const tell = TOLD[keyword];
    if (keyword === "title") continue;
    if (tell === undefined) copy[keyword] = widenMember(source, keyword, value);
    else if (value !== null) told.push(tell(value));
  }
  if (told.length > 0) {
    const given = typeof source.description === "string" ? [source.description.trim()] : [];
    copy.description = [...given, ...told].map((part) => part.replace(/\.$/, "")).join(". ");
  }
  if (copy.type === undefined) {
    const types = typesOfLiterals(copy);
    if (types.length > 0) copy.type = copyTypes({ type: types }) ?? types;
  }
  return referenceAlone(copy);
}

function widenMember(source: JsonObject, keyword: string, value: Json): Json {
  if (keyword === "properties" && isJsonObject(value)) {
    const required = new Set(listOf(source.required));
    return Object.fromEntries(
      Object.entries(value).map(([name, child]) => {
        if (!isJsonObject(child)) return [name, child];
        const wide = widen(child);
        return [name, required.has(name) ? wide : orNull(wide)];
      }),
    );
  }
  if (keyword === "$defs" && isJsonObject(value)) {
    return Object.fromEntries(
      Object.entries(value).map((
        [name, child],
      ) => [name, isJsonObject(child) ? widen(child) : child]),
    );
  }
  if ((keyword === "anyOf" || keyword === "allOf") && Array.isArray(value)) {
    return value.map((child) => isJsonObject(child) ? widen(child) : child);
  }
  return keyword === "items" && isJsonObject(value) ? widen(value) : value;
}

/** Strict mode refuses a description beside `$ref`; inside a union it stands alone. */
function referenceAlone(schema: JsonObject): JsonObject {
  const { $ref, ...rest } = schema;
  if ($ref === undefined || Object.keys(rest).length === 0) return schema;
  return "anyOf" in rest || "type" in rest ? schema : { ...rest, anyOf: [{ $ref }] };
}

function orNull(schema: JsonObject): JsonObject {
  if (allowsNull(schema)) return schema;
  if (Array.isArray(schema.anyOf)) {
    return schema.type === undefined
      ? { ...schema, anyOf: [...schema.anyOf, { type: "null" }] }
      : unite(schema);
  }
  const plain = schema.enum === undefined && schema.const === undefined &&
    schema.allOf === undefined && schema.$ref === undefined;
  const types = listOf(schema.type);
  return plain && types.length > 0 ? { ...schema, type: [...types, "null"] } : unite(schema);
}

function unite({ description, ...schema }: JsonObject): JsonObject {
  const union: JsonObject = { anyOf: [schema, { type: "null" }] };
  return description === undefined ? union : { description, ...union };
}

function allowsNull(schema: JsonObject): boolean {
  if (Array.isArray(schema.enum)) return schema.enum.includes(null);
  if (schema.const !== undefined) return schema.const === null;
  if (schema.$ref !== undefined || schema.allOf !== undefined) return false;
  if (schema.type !== undefined) return listOf(schema.type).includes("null");
  return Array.isArray(schema.anyOf) &&
    schema.anyOf.some((branch) => isJsonObject(branch) && allowsNull(branch));
}
