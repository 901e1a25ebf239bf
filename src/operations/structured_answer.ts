import { HubError } from "../core/error.ts";
import { isJsonObject, type Json, type JsonSchema } from "../core/json.ts";
import type { ModelRequest } from "../core/model.ts";
import { assertExactSchema } from "./exact_schema.ts";
import { normalizeSchemaForOpenAI } from "./openai_tool.ts";
import { parseArguments } from "./parse_arguments.ts";
import { describeProblems } from "./registry.ts";
import { createValidator } from "./validate_input.ts";

/** What became of an answer that was to be JSON. `problem` is a sentence for the model. */
export type ReadAnswer = { ok: true; value: Json } | { ok: false; problem: string };

/** An answer that is to be JSON. */
export interface StructuredAnswer {
  /** What the request to the model says. */
  responseFormat: NonNullable<ModelRequest["responseFormat"]>;
  /** The same in words: not every model has such a field, or obeys it. */
  instruction: string;
  read(text: string): ReadAnswer;
}

const NAME = "answer";
const MAX_SCHEMA_CHARS = 64 * 1024;

/**
 * JSON that fits a schema, or any JSON. Throws `invalid_request` for a schema that is not an object's, is too long, or has
 * a rule that answers are not checked for.
 */
export function createStructuredAnswer(schema: JsonSchema | null): StructuredAnswer {
  if (schema === null) {
    return {
      responseFormat: { name: NAME, schema: null, soft: true },
      instruction: "Answer with one JSON object and nothing else, without a code fence.",
      read: readJsonAnswer,
    };
  }
  const text = JSON.stringify(schema);
  if (text.length > MAX_SCHEMA_CHARS) {
    throw new HubError(
      "invalid_request",
      `The schema has ${text.length} characters, wanted at most ${MAX_SCHEMA_CHARS}`,
    );
  }
  if (schema["type"] !== "object") {
    throw new HubError("invalid_request", 'The schema is no object\'s, wanted `type: "object"`');
  }
  assertExactSchema(schema);
  const { parameters, strict } = normalizeSchemaForOpenAI(schema);
  const validate = createValidator(schema, { coerce: false, dropNulls: strict, exact: true });
  return {
    responseFormat: { name: NAME, schema: parameters, strict, soft: true },
    instruction:
      `Answer with one JSON object that fits this JSON Schema and nothing else, without a code fence:\n${text}`,
    read(answer) {
      const read = readJsonAnswer(answer);
      if (!read.ok) return read;
      const checked = validate(read.value);
      return checked.ok ? { ok: true, value: checked.input } : {
        ok: false,
        problem: `It does not fit the schema: ${describeProblems(checked.problems)}`,
      };
    },
  };
}

function readJsonAnswer(text: string): ReadAnswer {
  if (text.trim() === "") return { ok: false, problem: "It is empty" };
  const read = parseArguments(text);
  if (!read.ok) return { ok: false, problem: `It cannot be read: ${read.problem}` };
  if (isJsonObject(read.input)) return { ok: true, value: read.input };
  return { ok: false, problem: "It is JSON, but no object" };
}
