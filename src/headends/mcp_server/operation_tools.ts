import type { CallToolResult, ToolAnnotations } from "@modelcontextprotocol/server";
import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Log } from "../../core/log.ts";
import type { Tool, ToolContent, ToolOutput } from "../../core/tool.ts";
import { callTool } from "../../operations/call.ts";
import { describeProblems } from "../../operations/registry.ts";
import { toToolContent } from "../../operations/tool_output.ts";
import { allows } from "../../policy/key_policy.ts";
import type { ServedSchemas } from "./served_schemas.ts";
import type { ProgressReport, ServedTool, ToolCaller, ToolSource } from "./served_tool.ts";

/** What serving operations needs. */
export interface OperationToolsOptions {
  /** Those that there are now. */
  tools(): readonly Tool[];
  /** Shared by all that lists the same tools. */
  schemas: ServedSchemas;
  clock: Clock;
  ids: IdSource;
  log: Log;
  observe(facts: { tool: string; outcome: string; durationMs: number }): void;
}

/** Whoever calls over MCP may read more at a time than a model in a run. */
const LIMITS = { resultBytes: 1024 * 1024, resultLines: 50_000 };
const MAX_PROGRESS_CHARS = 500;

/**
 * The hub's operations, but for those that only mean something inside of a run, and those whose calls a person has to
 * approve: nobody would be asked here.
 */
export function createOperationTools(options: OperationToolsOptions): ToolSource {
  return {
    list: () =>
      options.tools()
        .filter((tool) => tool.approval === "never" && tool.inRunsOnly !== true)
        .flatMap((tool) => {
          const schemas = options.schemas.of(tool);
          return schemas === null ? [] : [toServed(tool, options, schemas)];
        }),
  };
}

function toServed(
  tool: Tool,
  options: OperationToolsOptions,
  { inputSchema, outputSchema }: Pick<ServedTool, "inputSchema" | "outputSchema">,
): ServedTool {
  return {
    name: tool.name,
    ...tool.title === undefined ? {} : { title: tool.title },
    description: tool.description,
    inputSchema,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    annotations: annotationsOf(tool),
    isFor: (policy) => allows(policy.tools, tool.name),
    async call(input, caller) {
      const { output, original } = await execute(tool, input, { caller, options });
      if (original !== undefined) return original as CallToolResult;
      const result: CallToolResult = { content: toToolContent(output).map(toContent) };
      if (outputSchema === undefined) return result;
      if (isJsonObject(output)) return { ...result, structuredContent: output };
      throw new HubError("internal_error", `The result of ${tool.name} is too long to be sent`);
    },
  };
}

async function execute(
  tool: Tool,
  input: JsonObject,
  { caller, options }: { caller: ToolCaller; options: OperationToolsOptions },
): Promise<{ output: ToolOutput; original?: JsonObject }> {
  const checked = tool.validate(input);
  if (!checked.ok) {
    throw new HubError(
      "invalid_request",
      `The arguments do not fit: ${describeProblems(checked.problems)}`,
    );
  }
  const { clock, ids, log } = options;
  const toolCallId = ids.next("call");
  const outcome = await callTool(tool, checked.input, {
    context: {
      signal: caller.signal,
      clock,
      log: log.with({ requestId: caller.requestId, tool: tool.name }),
      principal: caller.principal,
      sessionId: "",
      runId: "",
      toolCallId,
      agent: "",
      idempotencyKey: toolCallId,
      ask: caller.ask,
      again: caller.again,
      tell: caller.tell,
      sample: caller.sample,
      progress: (data) => caller.progress(toReport(data)),
    },
    limits: LIMITS,
    files: "pass",
  });
  const { status, durationMs } = outcome;
  options.observe({ tool: tool.name, outcome: status, durationMs });
  if (outcome.ok) return outcome;
  if (outcome.original !== undefined) return { output: null, original: outcome.original };
  const { errorText, error: cause } = outcome;
  throw new HubError(status === "aborted" ? "aborted" : "invalid_request", errorText, { cause });
}

/** The numbers of a connected server as they are; else words. */
function toReport(data: Json): ProgressReport {
  const { progress, total, message } = isJsonObject(data) ? data : {};
  if (typeof progress !== "number") {
    const text = typeof data === "string" ? data : JSON.stringify(data);
    return { message: text.slice(0, MAX_PROGRESS_CHARS) };
  }
  return {
    progress,
    ...typeof total === "number" ? { total } : {},
    ...typeof message === "string" ? { message: message.slice(0, MAX_PROGRESS_CHARS) } : {},
  };
}

function annotationsOf({ effect, hints }: Tool): ToolAnnotations {
  if (effect === "pure") return { ...hints, readOnlyHint: true };
  return { ...hints, readOnlyHint: false, idempotentHint: effect === "idempotent" };
}

function toContent(piece: ToolContent): CallToolResult["content"][number] {
  switch (piece.type) {
    case "text":
      return piece;
    case "json":
      return { type: "text", text: JSON.stringify(piece.value) };
    case "image":
      return { type: "image", data: piece.data, mimeType: piece.mediaType };
    case "file": {
      const { title, mediaType: mimeType, data: blob, uri = title } = piece;
      return { type: "resource", resource: { uri, mimeType, blob } };
    }
    case "resource": {
      const { uri, mediaType, title } = piece;
      return {
        type: "resource_link",
        uri,
        name: title ?? uri,
        ...(mediaType === undefined ? {} : { mimeType: mediaType }),
      };
    }
  }
}
