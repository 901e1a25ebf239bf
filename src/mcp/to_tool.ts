import { createHash } from "node:crypto";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { canonicalJson, type JsonObject, type JsonSchema } from "../core/json.ts";
import { stringifyInSteps } from "../core/large_json/encode_json.ts";
import { fitsPattern, namePattern } from "../core/name_pattern.ts";
import { isInDoubt } from "../core/outcome_unknown.ts";
import type { Principal, Tool, ToolContext, ToolEffect, ToolResult } from "../core/tool.ts";
import { configHash } from "./catalogue.ts";
import type { McpConnection } from "./connection.ts";
import { wantsInput } from "./input_required.ts";
import { paramHeaders } from "./param_headers.ts";
import { passedOn } from "./passed_on.ts";
import type { McpTool } from "./read_tools.ts";
import { toToolResult } from "./to_tool_result.ts";
import { toolName } from "./tool_names.ts";

/** A call of a server's tool that has ended, for logs and metrics. */
export interface McpCallFact {
  server: string;
  tool: string;
  /** `unknown`: it may have done its work, which does harm a second time. */
  outcome: "succeeded" | "failed" | "aborted" | "unknown";
  durationMs: number;
  /** Who called. */
  principal: Principal;
  toolCallId: string;
  /** Empty outside of runs. */
  runId: string;
  sessionId: string;
  /** Whether a credential that the caller handed over was sent. */
  handed: boolean;
  argsHash: string;
  bytesIn: number;
  bytesOut: number;
  /** When it began, in milliseconds since the epoch. */
  calledAtMs: number;
}

/** What a schema of a server is good for. */
export interface SchemaWork {
  /** The schema as models take it. */
  parametersOf(schema: JsonObject): JsonSchema;
  validatorOf(schema: JsonObject): Tool["validate"];
}

/** What making tools needs. */
export interface MappingOptions {
  schemas: SchemaWork;
  observe(fact: McpCallFact): void;
}

/** Whether a server's tool is offered, by its own name. */
export function isOffered({ tools }: LoadedMcpServer, name: string): boolean {
  if (tools?.allow !== undefined && !fitsPattern(name, tools.allow)) return false;
  return tools?.deny === undefined || !fitsPattern(name, tools.deny);
}

/** What the operator says of it. */
function saidEffect({ effect }: LoadedMcpServer, tool: McpTool): ToolEffect | null {
  for (const [pattern, said] of Object.entries(effect ?? {})) {
    if (namePattern(pattern).test(tool.name)) return said;
  }
  return null;
}

/** What running a tool twice does: what the operator says, else a trusted server, else the careful guess. */
export function effectOf(server: LoadedMcpServer, tool: McpTool): ToolEffect {
  const said = saidEffect(server, tool);
  if (said !== null) return said;
  if (!server.trust) return "effect";
  return tool.readOnly ? "pure" : tool.idempotent ? "idempotent" : "effect";
}

/** Its results are others' words, unless a trusted server says that it knows no world but its own. */
function outsideOf({ name, server }: McpConnection, tool: McpTool): Pick<Tool, "outside"> {
  if (server.trust && tool.hints?.openWorldHint === false) return {};
  const isSaidPure = saidEffect(server, tool) === "pure";
  return { outside: { source: `mcp:${name}`, sends: !isSaidPure } };
}

/** Makes a server's tool one of the loop's: its schema as models take it, its calls over the connection. */
export function toTool(
  connection: McpConnection,
  tool: McpTool,
  { schemas, observe }: MappingOptions,
): Tool {
  const { server } = connection;
  const { inputSchema, outputSchema, title, hints } = tool;
  const effect = effectOf(server, tool);
  let parameters: JsonSchema | null = null;
  return {
    name: toolName(server, tool.name),
    description: tool.description,
    ...title === undefined ? {} : { title },
    ...outputSchema === undefined ? {} : { outputSchema },
    ...server.trust && hints !== undefined ? { hints } : {},
    inputSchema,
    place: configHash(server),
    ...outsideOf(connection, tool),
    // Made when it is asked for: a server may have thousands of tools that no model is offered.
    get parameters() {
      return parameters ??= schemas.parametersOf(inputSchema);
    },
    strict: false,
    effect,
    approval: "never",
    risk: effect === "pure" ? "low" : "medium",
    timeoutMs: server.totalTimeoutMs,
    sequential: server.sequential,
    polling: false,
    validate: schemas.validatorOf(inputSchema),
    execute: (input, context) =>
      execute(connection, { tool, effect, input: input as JsonObject, context, observe }),
  };
}

async function execute(
  connection: McpConnection,
  { tool, effect, input, context, observe }: {
    tool: McpTool;
    effect: ToolEffect;
    input: JsonObject;
    context: ToolContext;
    observe: (fact: McpCallFact) => void;
  },
): Promise<ToolResult> {
  const { clock, log, signal, principal, toolCallId, runId, sessionId } = context;
  const calledAtMs = clock.now();
  const startedMs = clock.monotonic();
  let outcome: McpCallFact["outcome"] = "failed";
  let bytesOut = 0;
  try {
    const answer = await connection.call({
      tool: tool.name,
      input,
      headers: paramHeaders(tool.inputSchema, input),
      signal,
      pure: effect === "pure",
      progress: context.progress,
      ask: context.ask,
      tell: context.tell,
      sample: context.sample,
      again: context.again,
      caller: context,
    });
    bytesOut = answer === undefined ? 0 : (await stringifyInSteps(answer)).length;
    if (wantsInput(answer)) {
      outcome = "succeeded";
      return { content: [], original: answer };
    }
    const result = toToolResult(answer);
    if (result.isError !== true) outcome = "succeeded";
    const original = passedOn(connection.server, answer);
    return original === null ? result : { ...result, original };
  } catch (error) {
    if (isInDoubt(error)) outcome = effect === "effect" ? "unknown" : "failed";
    else if (signal.aborted) outcome = "aborted";
    throw error;
  } finally {
    const durationMs = Math.round(clock.monotonic() - startedMs);
    const fact = { server: connection.name, tool: tool.name, outcome, durationMs };
    const text = canonicalJson(input);
    const argsHash = hashOf(text);
    const { isHanded: handed } = connection;
    const ids = { principal, toolCallId, runId, sessionId };
    const sizes = { bytesIn: text.length, bytesOut };
    observe({ ...fact, ...ids, ...sizes, handed, argsHash, calledAtMs });
    const { keyId } = principal;
    log.info("[mcp] A tool was called", { ...fact, keyId, arguments: argsHash, bytes: bytesOut });
  }
}

/** Tells equal arguments from others without showing them. */
function hashOf(canonical: string): string {
  return createHash("sha256").update(canonical).digest("hex").slice(0, 16);
}
