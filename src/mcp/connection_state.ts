import type { Json, JsonObject } from "../core/json.ts";
import { isFinal, statusOf } from "./failure.ts";
import type { RequestWish } from "./send_request.ts";

/** How a server stands. `failed` and `needs_auth` are tried again when a tool is called, `backoff` by itself. */
export type ConnectionState =
  | { kind: "disabled" | "idle" | "connecting" | "ready" }
  | { kind: "needs_auth" | "failed"; reason: string }
  | { kind: "backoff"; reason: string; failures: number; nextAtMs: number };

/** Why a server in this state is not even tried now; null when it is. */
export function refusalOf(name: string, state: ConnectionState, nowMs: number): Error | null {
  if (state.kind === "disabled") return new Error(`The MCP server ${name} is disabled`);
  if (state.kind !== "backoff" || state.failures <= 1) return null;
  const leftS = Math.ceil(Math.max(0, state.nextAtMs - nowMs) / 1000);
  return new Error(
    `The MCP server ${name} is not available: ${state.reason}; it is tried again in ${leftS} s`,
  );
}

/** How a server stands after this; null when waiting mends it. */
export function stateAfter(error: unknown, reason: string): ConnectionState | null {
  const status = statusOf(error);
  if (status === 401 || status === 403) return { kind: "needs_auth", reason };
  return isFinal(error) ? { kind: "failed", reason } : null;
}

/** One request to a server. */
export interface McpRequest extends RequestWish {
  /** Whether it may be made again when nobody knows what became of it. */
  pure: boolean;
}

/** One call of a tool. */
export interface McpCall extends Omit<McpRequest, "method" | "params" | "what"> {
  tool: string;
  input: JsonObject;
  progress(data: Json): void;
  headers: Record<string, string>;
}
