import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { refusal, toolChoiceOf, toolsOf } from "../chat_fields.ts";
import { inlineRefs } from "../inline_refs.ts";
import { mapSubschemas } from "../map_subschemas.ts";

/** The members of a native request that are about tools. */
export function encodeTools(chat: JsonObject): JsonObject {
  const tools = toolsOf(chat);
  if (tools.length === 0) return {};
  const functionDeclarations = tools.map(({ name, description, parameters }, index) => ({
    name,
    description,
    ...(parameters === null ? {} : { parametersJsonSchema: toParameters(parameters, index) }),
  }));
  const { mode, names } = toolChoiceOf(chat);
  // Only this mode holds calls to their schemas, or to some names, and leaves the choice to the model.
  const isValidated = names !== null || tools.some(({ strict }) => strict);
  const native = { none: "NONE", required: "ANY", auto: isValidated ? "VALIDATED" : null }[mode];
  return {
    tools: [{ functionDeclarations }],
    toolConfig: native === null ? null : {
      functionCallingConfig: {
        mode: native,
        ...(names === null ? {} : { allowedFunctionNames: names }),
      },
    },
  };
}

function toParameters(schema: JsonSchema, index: number): JsonSchema {
  const made = toGeminiSchema(schema, `tools[${index}].function.parameters`);
  return made["type"] === "object" ? made : { ...made, type: "object" };
}

/**
 * A JSON Schema as `parametersJsonSchema` and `responseJsonSchema` take it: references written out, since Gemini refuses
 * one with members beside it; `const` as an `enum` of one, and enums of texts and numbers only.
 */
export function toGeminiSchema(schema: JsonSchema, param: string): JsonSchema {
  const whole = inlineRefs(schema, { recursion: "keep" });
  if (whole === null) {
    throw refusal(param, `${param} is too large once its references are written out`);
  }
  return mapEnums(whole) as JsonSchema;
}

/** `const`, and members of an `enum` that are neither text nor number, in words that Gemini knows. */
function mapEnums(value: Json): Json {
  if (!isJsonObject(value)) return value;
  const schema = mapSubschemas(value, mapEnums);
  const { const: only, enum: several, ...rest } = schema;
  if (only === undefined && !Array.isArray(several)) return schema;
  const values: Json[] = only === undefined ? several as Json[] : [only];
  const isPlain = (item: Json) => typeof item === "string" || typeof item === "number";
  const plain = values.filter(isPlain);
  if (plain.length === values.length) return { ...rest, enum: plain };
  const { type: _, ...beside } = rest;
  const names = new Set(values.filter((item) => !isPlain(item)).map(nameOf));
  const kinds = [...names].map((type): JsonObject => ({ type }));
  if (plain.length === 0 && kinds.length === 1) return { ...beside, ...kinds[0] };
  return { ...beside, anyOf: [...(plain.length === 0 ? [] : [{ enum: plain }]), ...kinds] };
}

function nameOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
