import { HubError } from "../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { McpConnection } from "./connection.ts";

import { ConnectFailure, describeFailure } from "./failure.ts";
import { type McpContent, NO_CONTENT } from "./read_content.ts";
import { untilAborted } from "./until_aborted.ts";

/** What is asked to be completed: an argument of a prompt, or a variable of a template of resources. */
export interface CompletionWish {
  ref: { type: "ref/prompt"; name: string } | { type: "ref/resource"; uri: string };
  argument: { name: string; value: string };
  /** What is settled already. */
  context?: { arguments?: Record<string, string> };
}

/** What a completion offers. */
export interface Completion {
  values: string[];
  total?: number;
  hasMore?: boolean;
}

/** JSON-RPC's codes, and MCP's for a resource that is not there: since 2026-07-28 the former, with its URI. */
const NOT_FOUND = -32002;
const INVALID_PARAMS = -32602;
const INVALID = new Set([-32600, -32601, INVALID_PARAMS]);
const MAX_CONTENTS = 1000;
const MAX_MESSAGES = 1000;
const MAX_VALUES = 100;

/** What a server has beside tools; connects where that is not known yet. Throws what the caller may read. */
export async function contentOf(
  connection: McpConnection,
  signal: AbortSignal,
): Promise<McpContent> {
  const { content, name } = connection;
  if (content.listing === null) {
    await untilAborted(connection.connect(), signal);
    await untilAborted(content.settled(), signal);
  }
  if (content.listing !== null) return content.listing;
  const { state } = connection;
  if (state.kind === "disabled") {
    throw new HubError("not_found", `The MCP server ${name} is disabled`);
  }
  if (state.kind === "ready") return NO_CONTENT;
  const reason = "reason" in state ? state.reason : "it is not connected";
  throw new HubError("upstream_unreachable", `The MCP server ${name} is not available: ${reason}`);
}

/** The contents of a resource as the server gives them: `text` or `blob` (base64), by URI. */
export async function readResource(
  connection: McpConnection,
  { uri, signal }: { uri: string; signal: AbortSignal },
): Promise<JsonObject[]> {
  const answer = await ask(connection, { method: "resources/read", params: { uri }, signal });
  const found = Array.isArray(answer.contents) ? answer.contents.slice(0, MAX_CONTENTS) : [];
  return found.flatMap((content) => {
    if (!isJsonObject(content)) return [];
    const { text, blob } = content;
    const own = { ...content, uri: typeof content.uri === "string" ? content.uri : uri };
    if (typeof text !== "string" && typeof blob !== "string") return [];
    return [own];
  });
}

/** A prompt, filled. */
export async function getPrompt(
  connection: McpConnection,
  wish: { name: string; arguments: Record<string, string>; signal: AbortSignal },
): Promise<{ description?: string; messages: JsonObject[] }> {
  const { signal, ...params } = wish;
  const answer = await ask(connection, { method: "prompts/get", params, signal });
  const { description } = answer;
  const found = Array.isArray(answer.messages) ? answer.messages.slice(0, MAX_MESSAGES) : [];
  return {
    ...typeof description === "string" ? { description } : {},
    messages: found.filter(isJsonObject).filter(({ content }) => isJsonObject(content)),
  };
}

/** What could stand in an argument; nothing where the server does not complete. */
export async function complete(
  connection: McpConnection,
  { signal, ...wish }: CompletionWish & { signal: AbortSignal },
): Promise<Completion> {
  const params = { ...wish } as unknown as JsonObject;
  const answer = await ask(connection, { method: "completion/complete", params, signal });
  const { values, total, hasMore } = isJsonObject(answer.completion) ? answer.completion : {};
  const texts = Array.isArray(values) ? values.filter((value) => typeof value === "string") : [];
  return {
    values: texts.slice(0, MAX_VALUES),
    ...typeof total === "number" ? { total } : {},
    ...typeof hasMore === "boolean" ? { hasMore } : {},
  };
}

async function ask(
  connection: McpConnection,
  { method, params, signal }: { method: string; params: JsonObject; signal: AbortSignal },
): Promise<JsonObject> {
  const { name } = connection;
  try {
    const what = `The MCP server ${name}`;
    const asked = { method, params, what, signal, pure: true, progress() {} };
    const answer = await connection.request(asked);
    return isJsonObject(answer) ? answer : {};
  } catch (error) {
    if (signal.aborted) throw error;
    throw toFailure(name, error);
  }
}

function toFailure(name: string, error: unknown): HubError {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; depth++) {
    if (at instanceof HubError) return at;
    if (at instanceof ConnectFailure) {
      return new HubError("upstream_unreachable", at.message, { cause: error });
    }
    const code: unknown = "code" in at ? at.code : undefined;
    const said = () => `The MCP server ${name} says: ${describeFailure(error)}`;
    const data = "data" in at ? at.data as Json : null;
    const isGone = code === INVALID_PARAMS && isJsonObject(data) && typeof data.uri === "string";
    if (code === NOT_FOUND || isGone) return new HubError("not_found", said(), { cause: error });
    if (typeof code === "number" && INVALID.has(code)) {
      return new HubError("invalid_request", said(), { cause: error });
    }
    at = at.cause;
  }
  return new HubError("upstream_error", describeFailure(error), { cause: error });
}
