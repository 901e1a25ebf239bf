import { Type } from "@sinclair/typebox";
import type { AnswerFormat } from "../core/answer_format.ts";
import { HubError } from "../core/error.ts";
import { isJsonObject } from "../core/json.ts";

/** The fields of a body that say what the answer is to be. */
export const AnswerFormatFields = {
  format: Type.Optional(Type.Union([Type.Literal("text"), Type.Literal("json")], {
    description: "json: the answer is one JSON object, or the run fails. Default: text",
  })),
  schema: Type.Optional(Type.Object({}, {
    additionalProperties: true,
    description: 'With format json: the JSON Schema that it fits, which has type "object"',
  })),
};

/** What the answer is to be; null for text. Throws `invalid_request` for a schema without format json. */
export function answerFormatOf(
  { format, schema }: { format?: unknown; schema?: unknown },
): AnswerFormat | null {
  if (format === "json" && (schema === undefined || isJsonObject(schema))) {
    return { schema: schema ?? null };
  }
  if (schema === undefined) return null;
  throw new HubError("invalid_request", "A schema is an object, and wants format json", {
    param: "schema",
  });
}
