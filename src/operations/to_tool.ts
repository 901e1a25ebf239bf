import { HubError } from "../core/error.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import { DEFAULT_TOOL_TIMEOUT_MS } from "../core/limits.ts";
import type { Tool, ToolContent, ToolResult } from "../core/tool.ts";
import { describeValue } from "./describe_value.ts";
import { normalizeSchemaForOpenAI } from "./openai_tool.ts";
import type { Operation } from "./operation.ts";
import { isToolContent } from "./tool_output.ts";
import { createValidator, type Validator } from "./validate_input.ts";

/**
 * The tool the loop sees: an operation with its outward schema, its validator and its result as content.
 * `timeoutMs` is the deadline of operations that set none.
 */
export function toTool(
  operation: Operation,
  { timeoutMs = DEFAULT_TOOL_TIMEOUT_MS }: { timeoutMs?: number } = {},
): Tool {
  const { inputSchema, outputSchema } = operation;
  const { parameters, strict } = normalizeSchemaForOpenAI(inputSchema);
  const validate = createValidator(inputSchema, { dropNulls: strict, patterns: "native" });
  const { preview, outside, namespace: source } = operation;
  const checkOutput = outputSchema === null
    ? null
    : createValidator(outputSchema, { coerce: false, patterns: "native" });
  return {
    name: operation.fullName,
    description: operation.description,
    inputSchema,
    ...(outputSchema === null ? {} : { outputSchema }),
    ...(outside === null ? {} : { outside: { source, sends: outside === "sends" } }),
    ...(operation.inRunsOnly ? { inRunsOnly: true } : {}),
    parameters,
    strict,
    effect: operation.effect,
    approval: operation.approval,
    risk: operation.risk,
    timeoutMs: operation.timeoutMs ?? timeoutMs,
    sequential: operation.sequential,
    polling: operation.polling,
    validate: (input) =>
      isJsonObject(input)
        ? validate(input)
        : { ok: false, problems: [{ path: "", wanted: "object", got: describeValue(input) }] },
    ...(preview === undefined ? {} : { preview }),
    async execute(input, context) {
      const value: unknown = await operation.run(input, context);
      return checkOutput === null
        ? freeResult(operation, value)
        : checkedResult(operation, value, checkOutput);
    },
  };
}

function checkedResult(operation: Operation, value: unknown, check: Validator): ToolResult {
  const output = toJson(operation, value);
  const checked = check(output);
  if (checked.ok) return { content: [toPiece(output)] };
  const problems = checked.problems.map(({ path, wanted, got }) =>
    `${path === "" ? "the result" : path} is ${got}, wanted ${wanted}`
  );
  throw new HubError(
    "internal_error",
    `Operation ${operation.fullName} ran, but its result does not fit its output schema: ${
      problems.join("; ")
    }`,
  );
}

/** An array of content pieces is content; everything else is a text or a JSON value. */
function freeResult(operation: Operation, value: unknown): ToolResult {
  if (Array.isArray(value) && value.length > 0 && value.every(isToolContent)) {
    return { content: value };
  }
  return { content: [toPiece(toJson(operation, value))] };
}

function toPiece(value: Json): ToolContent {
  return typeof value === "string" ? { type: "text", text: value } : { type: "json", value };
}

function toJson(operation: Operation, value: unknown): Json {
  if (typeof value === "string") return value;
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return JSON.parse(text);
  } catch (cause) {
    throw new HubError(
      "internal_error",
      `Operation ${operation.fullName} gave back a value that is not JSON`,
      { cause },
    );
  }
  throw new HubError(
    "internal_error",
    `Operation ${operation.fullName} gave back ${typeof value}, wanted a text or a JSON value`,
  );
}
