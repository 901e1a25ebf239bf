import { isJsonObject, type Json, type JsonSchema } from "../core/json.ts";

/** Members whose values are no schemas. */
const DATA: ReadonlySet<string> = new Set(["enum", "const", "default", "examples", "required"]);
/** Members that hold schemas by names of their own. */
const NAMED: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
]);

/** The schema with `change` applied to each schema directly inside it; `true` is a schema where it cannot be a flag. */
export function mapSubschemas(schema: JsonSchema, change: (value: Json) => Json): JsonSchema {
  const made = Object.entries(schema).map(([name, item]): [string, Json] => {
    if (DATA.has(name)) return [name, item];
    if (NAMED.has(name) && isJsonObject(item)) {
      const inner = Object.entries(item).map(([key, value]) => [key, change(value)]);
      return [name, Object.fromEntries(inner)];
    }
    if (Array.isArray(item)) return [name, item.map(change)];
    return [name, isJsonObject(item) || name === "items" ? change(item) : item];
  });
  return Object.fromEntries(made);
}
