import { isJsonObject, type JsonObject, type JsonSchema } from "../core/json.ts";
import type { Tool } from "../core/tool.ts";
import { describeValue } from "./describe_value.ts";
import { normalizeSchemaForOpenAI } from "./openai_tool.ts";
import { createValidator, type Validator } from "./validate_input.ts";

/** A schema that others wrote as models take it; never strict, since absent arguments are to stay absent. */
export function foreignParameters(schema: JsonObject): JsonSchema {
  return normalizeSchemaForOpenAI(schema, { allowStrict: false }).parameters;
}

/** What checks arguments against a schema that others wrote: its regular expressions are never run, and nulls of optional properties that do not allow null are left out. Made when it is first needed. */
export function foreignValidator(schema: JsonObject): Tool["validate"] {
  let validate: Validator | null = null;
  return (input) => {
    if (!isJsonObject(input)) {
      return { ok: false, problems: [{ path: "", wanted: "object", got: describeValue(input) }] };
    }
    validate ??= createValidator(schema, { dropNulls: true });
    return validate(input);
  };
}
