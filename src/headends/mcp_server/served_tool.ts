import type { CallToolResult, ToolAnnotations } from "@modelcontextprotocol/server";
import type { HandedCredentials } from "../../core/handed_credentials.ts";
import type { JsonObject, JsonSchema } from "../../core/json.ts";
import type { Principal, ToolContext } from "../../core/tool.ts";
import type { KeyPolicy } from "../../policy/key_policy.ts";
import type { Span } from "../../telemetry/tracing.ts";

/** Who calls over MCP, and by which request. */
export interface Caller {
  principal: Principal;
  requestId: string;
  /** Of the request; null when it is not traced. */
  span: Span | null;
  /** What it hands over for single servers; null or left out for nothing. */
  handed?: HandedCredentials | null;
  /** Left out where arguments come in the body alone. */
  mirrored?: MirroredHeaders;
}

/** Headers that came with a call over HTTP in a revision whose headers say what its arguments say. */
export interface MirroredHeaders {
  /** Null for one that did not come, or came twice. */
  get(name: string): string | null;
  /** They do not fit the arguments. */
  refuse(): void;
}

/** How far a call is; counted where it has no number of its own. */
export interface ProgressReport {
  message?: string;
  progress?: number;
  total?: number;
}

/** A caller, and what its call is told and asks. */
export interface ToolCaller extends Caller {
  /** Aborts when the call was cancelled. */
  signal: AbortSignal;
  /** Tells a client that asked for it what goes on. */
  progress(report: ProgressReport): void;
  /** Hands on what the tool says. */
  tell?: ToolContext["tell"];
  /** Asks the client; left out when it cannot be asked. */
  ask?: ToolContext["ask"];
  /** Set where the client is asked by the result. */
  again?: ToolContext["again"];
  /** Has the client ask a model; left out when it cannot. */
  sample?: ToolContext["sample"];
}

/** A tool as MCP clients see it. */
export interface ServedTool {
  /** Full name; the name on the wire is made from those of all tools. */
  name: string;
  title?: string;
  description: string;
  /** An object's. */
  inputSchema: JsonSchema;
  /** An object's; with it every result that is no error has `structuredContent`. */
  outputSchema?: JsonSchema;
  annotations?: ToolAnnotations;
  /** Whether its calls have connections to servers of their own: those of the request are ended before. */
  hasConnections?: boolean;
  /** Whether a key of this policy sees it and may call it. */
  isFor(policy: KeyPolicy): boolean;
  /** Rejects with an error whose message the client may read. */
  call(input: JsonObject, caller: ToolCaller): Promise<CallToolResult>;
}

/** Where tools come from: the hub's agents, its operations, servers that it is connected to. */
export interface ToolSource {
  /** All of them, in any order. */
  list(): readonly ServedTool[];
}
