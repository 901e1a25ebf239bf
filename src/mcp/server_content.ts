import { HubError } from "../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { CallingAgain } from "../core/tool.ts";
import type { McpConnection } from "./connection.ts";
import { ConnectFailure, describeToClient } from "./failure.ts";
import { InputRequired, wantsInput } from "./input_required.ts";
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

/** Who asks, and until when. */
interface Whose {
  signal: AbortSignal;
  /** Set where the caller is asked by the result: `InputRequired` is thrown then. */
  again?: CallingAgain | undefined;
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
  const { content } = connection;
  if (content.listing === null) {
    await untilAborted(connection.connect(), signal);
    await untilAborted(content.settled(), signal);
  }
  if (content.listing !== null) return content.listing;
  if (connection.state.kind === "ready") return NO_CONTENT;
  throw notAvailable(connection);
}

/** The contents of a resource as the server gives them: `text` or `blob` (base64), by URI. */
export async function readResource(
  connection: McpConnection,
  { uri, ...whose }: Whose & { uri: string },
): Promise<JsonObject[]> {
  const answer = await ask(connection, { method: "resources/read", params: { uri }, ...whose });
  const found = Array.isArray(answer.contents) ? answer.contents.slice(0, MAX_CONTENTS) : [];
  return found.flatMap((content) => {
    if (!isJsonObject(content)) return [];
    const { text, blob } = content;
    const own = { ...content, uri: typeof content.uri === "string" ? content.uri : uri };
    if (typeof text !== "string" && typeof blob !== "string") return [];
    return [own];
  });
}

/** Follows a resource; connects where there is no connection. Throws what the caller may read when the server does not tell of it. */
export async function followResource(
  connection: McpConnection,
  { uri, signal, onUpdate }: { uri: string; signal: AbortSignal; onUpdate: () => void },
): Promise<() => void> {
  const { name } = connection;
  await untilAborted(connection.connect(), signal);
  if (connection.state.kind !== "ready") throw notAvailable(connection);
  const { ready, release } = connection.content.updates.follow(uri, onUpdate);
  try {
    await untilAborted(ready, signal);
    return release;
  } catch (error) {
    release();
    throw signal.aborted ? error : toFailure(name, error);
  }
}

/** A prompt, filled. */
export async function getPrompt(
  connection: McpConnection,
  wish: Whose & { name: string; arguments: Record<string, string> },
): Promise<{ description?: string; messages: JsonObject[] }> {
  const { signal, again, ...params } = wish;
  const answer = await ask(connection, { method: "prompts/get", params, signal, again });
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
  { method, params, signal, again }: Whose & { method: string; params: JsonObject },
): Promise<JsonObject> {
  const { name } = connection;
  try {
    const what = `The MCP server ${name}`;
    const asked = { method, params, what, signal, again, pure: true };
    const answer = await connection.request(asked);
    if (wantsInput(answer)) throw new InputRequired(answer);
    return isJsonObject(answer) ? answer : {};
  } catch (error) {
    if (signal.aborted || error instanceof InputRequired) throw error;
    throw toFailure(name, error);
  }
}

function notAvailable({ name, state }: McpConnection): HubError {
  if (state.kind === "disabled") {
    return new HubError("not_found", `The MCP server ${name} is disabled`);
  }
  const reason = "reason" in state ? state.reason : "it is not connected";
  const message = `The MCP server ${name} is not available: ${reason}`;
  return new HubError("upstream_unreachable", message);
}

function toFailure(name: string, error: unknown): HubError {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; depth++) {
    if (at instanceof HubError) return at;
    if (at instanceof ConnectFailure) {
      return new HubError("upstream_unreachable", at.message, { cause: error });
    }
    const code: unknown = "code" in at ? at.code : undefined;
    const said = () => `The MCP server ${name} says: ${describeToClient(error)}`;
    const data = "data" in at ? at.data as Json : null;
    const isGone = code === INVALID_PARAMS && isJsonObject(data) && typeof data.uri === "string";
    if (code === NOT_FOUND || isGone) return new HubError("not_found", said(), { cause: error });
    if (typeof code === "number" && INVALID.has(code)) {
      return new HubError("invalid_request", said(), { cause: error });
    }
    at = at.cause;
  }
  return new HubError("upstream_error", describeToClient(error), { cause: error });
}
