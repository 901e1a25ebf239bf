import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { Config } from "./schema.ts";
import { OWN_KEYWORDS } from "./schema_node.ts";

/**
 * The JSON Schema (draft 7, which editors know best) of a configuration file, published as `loophub.schema.json`.
 * Inside the hub every setting with a default is there; in a file it may be left out, so it is not required.
 */
export function configJsonSchema(): JsonObject {
  // TypeBox's own marks are symbols, which JSON leaves out.
  const plain = JSON.parse(JSON.stringify(Config)) as JsonObject;
  return { $schema: "http://json-schema.org/draft-07/schema#", ...toFileSchema(plain) };
}

/** One schema, walked along the places where keywords stand, so that a setting named like a keyword is kept. */
function toFileSchema(node: JsonObject): JsonObject {
  const out: JsonObject = {};
  for (const [keyword, value] of Object.entries(node)) {
    if (OWN_KEYWORDS.has(keyword)) continue;
    if (keyword === "properties" || keyword === "patternProperties") {
      out[keyword] = mapMembers(value);
    } else if (keyword === "items" && isJsonObject(value)) {
      out[keyword] = toFileSchema(value);
    } else if (keyword === "anyOf" && Array.isArray(value)) {
      out[keyword] = value.map((variant) =>
        isJsonObject(variant) ? toFileSchema(variant) : variant
      );
    } else if (keyword === "required" && Array.isArray(value)) {
      const required = value.filter((name) => !hasDefault(node, name));
      if (required.length > 0) out[keyword] = required;
    } else {
      out[keyword] = value;
    }
  }
  return out;
}

function mapMembers(members: Json): Json {
  if (!isJsonObject(members)) return members;
  return Object.fromEntries(
    Object.entries(members).map((
      [name, schema],
    ) => [name, isJsonObject(schema) ? toFileSchema(schema) : schema]),
  );
}

function hasDefault(node: JsonObject, name: Json): boolean {
  if (typeof name !== "string" || !isJsonObject(node.properties)) return false;
  const member = node.properties[name];
  return isJsonObject(member) && "default" in member;
}
