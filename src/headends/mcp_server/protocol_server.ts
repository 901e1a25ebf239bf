import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type Tool,
} from "@modelcontextprotocol/server";
import { toHubError } from "../../core/error.ts";
import type { ConcurrencyGate } from "../../core/concurrency_gate.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ToolMessage } from "../../core/tool.ts";
import type { Log } from "../../core/log.ts";
import { findHeaderMismatch } from "../../mcp/param_headers.ts";
import type { Admission, Visitor } from "../../policy/admission.ts";
import type { CallersContent } from "../../policy/callers_content.ts";
import type { KeyPolicy } from "../../policy/key_policy.ts";
import type { Caller, ProgressReport } from "./served_tool.ts";
import { clientsAgain, clientsAsk } from "./clients_ask.ts";
import { inputFailure } from "./protocol_error.ts";
import { clientsSample } from "./clients_sample.ts";
import { serveContent } from "./served_content.ts";
import { serveSubscriptions } from "./serve_subscriptions.ts";
import type { Subscriptions } from "./subscriptions.ts";
import type { CatalogNews, ListedTool, ToolCatalog } from "./tool_catalog.ts";

/** What answering MCP requests needs, whatever they came by. */
export interface ProtocolOptions {
  catalog: ToolCatalog;
  /** Resources and prompts of connected servers; left out where there are none to be served. */
  content?: CallersContent;
  /** What clients follow of those; left out where they cannot. */
  subscriptions?: Subscriptions;
  /** What there is for a caller who has something of its own; null when that is no other than for all. */
  viewFor?(caller: Caller): Promise<CallersView | null>;
  policyOf(keyId: string): KeyPolicy;
  admission: Admission;
  log: Log;
  info: { name: string; version: string };
}

/** What one caller may use, for one request. */
export interface CallersView {
  catalog: Pick<ToolCatalog, "listFor" | "find">;
  /** Ends what there is for it alone. Idempotent; never rejects. */
  close(): Promise<void>;
}

const INSTRUCTIONS =
  "Tools named agent_… are agents: each call is a run of its own, which may take minutes. The others are single operations.";
/** Lists hang on the caller's key. */
const CACHE_HINT = { ttlMs: 5000, cacheScope: "private" } as const;
const CACHED = [
  "tools/list",
  "server/discover",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "prompts/list",
] as const;
const WITH_CONTENT = { prompts: { listChanged: true }, completions: {} };
const MAX_NAME_CHARS = 128;
/** The protocol's own, since revision 2026-07-28. */
const HEADER_MISMATCH = -32020;

/** Makes what answers the requests of one connection, session or request; `callerOf` tells whose each of them is. */
export function createProtocolServer(
  { catalog: shared, content, subscriptions, viewFor, policyOf, admission, log, info }:
    ProtocolOptions,
  callerOf: (ctx: ServerContext) => Caller,
): Server {
  const resources = { listChanged: true, subscribe: subscriptions !== undefined };
  const server = new Server(info, {
    capabilities: {
      tools: { listChanged: true },
      logging: {},
      ...content === undefined ? {} : { ...WITH_CONTENT, resources },
    },
    instructions: INSTRUCTIONS,
    cacheHints: Object.fromEntries(CACHED.map((method) => [method, CACHE_HINT])),
  });
  if (content !== undefined) serveContent(server, { content, callerOf });
  if (subscriptions !== undefined) serveSubscriptions(server, { subscriptions, callerOf });
  const look = async (caller: Caller): Promise<CallersView> =>
    await viewFor?.(caller) ?? { catalog: shared, close: () => Promise.resolve() };
  server.setRequestHandler("tools/list", async (_request, ctx) => {
    const caller = callerOf(ctx);
    const { catalog, close } = await look(caller);
    await close();
    return { tools: catalog.listFor(policyOf(caller.principal.keyId)).map(toTool) };
  });
  server.setRequestHandler("tools/call", async ({ params }, ctx): Promise<CallToolResult> => {
    const caller = callerOf(ctx);
    const { principal, requestId } = caller;
    const args = (params.arguments ?? {}) as JsonObject;
    const { catalog, close } = await look(caller);
    const tool = catalog.find(params.name, policyOf(principal.keyId));
    if (tool === null) {
      await close();
      const name = params.name.slice(0, MAX_NAME_CHARS);
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${name}`);
    }
    const mismatch = caller.mirrored === undefined || ctx.mcpReq.envelope === undefined
      ? null
      : findHeaderMismatch(tool.inputSchema, args, caller.mirrored.get);
    if (mismatch !== null) {
      await close();
      caller.mirrored?.refuse();
      throw new ProtocolError(
        HEADER_MISMATCH,
        `The headers are not what the body says: ${mismatch}`,
      );
    }
    const { signal } = ctx.mcpReq;
    const visit = new Visit(caller, signal);
    const progress = new Progress(ctx);
    try {
      const entered = admission.enter(visit);
      if (entered !== null) await entered;
      if (tool.hasConnections === true) await close();
      return await tool.call(args, {
        ...caller,
        signal,
        progress: (report) => progress.tell(report),
        ask: clientsAsk(server, ctx, principal),
        again: clientsAgain(ctx, principal),
        tell: tellClient(ctx),
        sample: clientsSample(server, ctx),
      });
    } catch (failure) {
      const refused = inputFailure(failure);
      if (refused !== null) throw refused;
      const error = toHubError(failure);
      const { level } = error.kind;
      log[level]("A tool that was called over MCP failed", { error, tool: tool.name, requestId });
      return { isError: true, content: [{ type: "text", text: error.message }] };
    } finally {
      progress.end();
      await close();
      admission.leave(visit);
    }
  });
  return server;
}

/** Hands what a tool says to the client that called, at the level that it wants. */
function tellClient({ mcpReq }: ServerContext): (message: ToolMessage) => void {
  return ({ level, data, logger }) => {
    mcpReq.log(level as Parameters<typeof mcpReq.log>[0], data, logger)
      .catch(() => {/* the client has left, which is told elsewhere */});
  };
}

/** Tells a client which of its lists may be others. */
export function tellNews(server: Server, { tools, content }: CatalogNews): void {
  const told = [
    ...tools ? [server.sendToolListChanged()] : [],
    ...content ? [server.sendResourceListChanged(), server.sendPromptListChanged()] : [],
  ];
  for (const sent of told) sent.catch(() => {/* nobody listens yet, or any more */});
}

function toTool({ name, tool }: ListedTool): Tool {
  const { title, description, inputSchema, outputSchema, annotations } = tool;
  return {
    name,
    ...(title === undefined ? {} : { title }),
    description,
    inputSchema: inputSchema as Tool["inputSchema"],
    ...(outputSchema === undefined
      ? {}
      : { outputSchema: outputSchema as NonNullable<Tool["outputSchema"]> }),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

/** A call among those that are under way. */
class Visit implements Visitor {
  readonly principal: Caller["principal"];
  readonly signal: AbortSignal;
  keyGate: ConcurrencyGate | null = null;
  hubGate: ConcurrencyGate | null = null;

  constructor({ principal }: Caller, signal: AbortSignal) {
    this.principal = principal;
    this.signal = signal;
  }
}

/** What a client that gave a token is told of its call. */
class Progress {
  readonly #ctx: ServerContext;
  readonly #token: string | number | undefined;
  #told = -Infinity;
  #ended = false;

  constructor(ctx: ServerContext) {
    this.#ctx = ctx;
    this.#token = ctx.mcpReq._meta?.progressToken;
  }

  /** What is no more than was told before is left out, as the protocol wants it. */
  tell({ progress = Math.max(this.#told, 0) + 1, ...rest }: ProgressReport): void {
    const progressToken = this.#token;
    if (progressToken === undefined || this.#ended || progress <= this.#told) return;
    this.#told = progress;
    const params = { progressToken, progress, ...rest };
    this.#ctx.mcpReq.notify({ method: "notifications/progress", params })
      .catch(() => {/* the client has left, which is told elsewhere */});
  }

  end(): void {
    this.#ended = true;
  }
}
