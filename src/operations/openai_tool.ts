import type { JsonSchema } from "../core/json.ts";
import type { FunctionDefinition } from "../core/model.ts";
import type { Tool } from "../core/tool.ts";
import { normalizeSchema } from "./normalize_schema.ts";
import { MAX_DESCRIPTION_CHARS, type Operation } from "./operation.ts";
import { toStrictSchema } from "./strict_schema.ts";
import { createWireNames, type WireNames } from "./wire_names.ts";

/** A tool as `tools` of a chat completion request holds it. */
export interface OpenAITool {
  type: "function";
  function: { name: string; description: string; parameters: JsonSchema; strict: boolean };
}

/** A schema as sent to a model, whether strict mode may be asked for, and what had to be changed. */
export interface OpenAISchema {
  parameters: JsonSchema;
  strict: boolean;
  /** One sentence for each thing that was left out or repaired; empty for clean schemas. */
  notes: string[];
}

/**
 * Makes any schema fit OpenAI's `parameters`. Strict when possible: the schema must say exactly what its source says,
 * and `openai/lib/transform` must find it representable. `allowStrict: false` for schemas of MCP servers, which want
 * absent arguments absent. Never throws, never fetches.
 */
export function normalizeSchemaForOpenAI(
  schema: unknown,
  options: { allowStrict?: boolean } = {},
): OpenAISchema {
  const { schema: normalized, exact, notes } = normalizeSchema(schema);
  const strict = exact && options.allowStrict !== false ? toStrictSchema(normalized) : null;
  return strict === null
    ? { parameters: normalized, strict: false, notes }
    : { parameters: strict, strict: true, notes };
}

/** The OpenAI tool of an operation. `names` is the map of all tools of a run; alone, the operation keeps its clean name. */
export function operationToOpenAITool(
  operation: Operation,
  options: { names?: WireNames } = {},
): OpenAITool {
  const names = options.names ?? createWireNames([operation.fullName]);
  const { parameters, strict } = normalizeSchemaForOpenAI(operation.inputSchema);
  return {
    type: "function",
    function: {
      name: names.toWire(operation.fullName),
      description: operation.description,
      parameters,
      strict,
    },
  };
}

/** A tool as the model sees it, for `ModelRequest.tools`. Descriptions beyond 1024 characters are cut. */
export function toFunctionDefinition(tool: Tool, names: WireNames): FunctionDefinition {
  return {
    name: names.toWire(tool.name),
    description: capDescription(tool.description),
    parameters: tool.parameters,
    strict: tool.strict,
  };
}

/** A description model APIs take: at most 1024 UTF-16 units, cut at a whole character. */
export function capDescription(description: string): string {
  if (description.length <= MAX_DESCRIPTION_CHARS) return description;
  return `${description.slice(0, MAX_DESCRIPTION_CHARS - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}
