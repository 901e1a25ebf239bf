import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../../core/json.ts";
import { refusal, toolChoiceOf, toolsOf } from "../chat_fields.ts";
import { inlineRefs } from "../inline_refs.ts";

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

function mapEnums(value: Json): Json {
  if (Array.isArray(value)) return value.map(mapEnums);
  if (!isJsonObject(value)) return value;
  const made: JsonObject = {};
  for (const [name, item] of Object.entries(value)) {
    const isData = name === "default" || name === "examples" || name === "enum" ||
      name === "const" && !isJsonObject(item);
    made[name] = isData ? item : mapEnums(item);
  }
  return withEnum(made);
}

/** `const`, and members of an `enum` that are neither text nor number, in words that Gemini knows. */
function withEnum(schema: JsonObject): JsonObject {
  const { const: only, enum: several, ...rest } = schema;
  const isName = isJsonObject(only) || (several !== undefined && !Array.isArray(several));
  // A property may be called so.
  if (isName || (only === undefined && several === undefined)) return schema;
  const values = Array.isArray(several) ? several : [only as Json];
  const plain = values.filter((value) => typeof value === "string" || typeof value === "number");
  const types = [
    ...new Set(values.filter((value) => !plain.includes(value as string)).map(nameOf)),
  ];
  if (types.length === 0) return { ...rest, enum: plain };
  const kinds = types.map((type): JsonObject => ({ type }));
  const { type: _, ...beside } = rest;
  if (plain.length === 0 && kinds.length === 1) return { ...beside, ...kinds[0] };
  return { ...beside, anyOf: [...(plain.length === 0 ? [] : [{ enum: plain }]), ...kinds] };
}

function nameOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
