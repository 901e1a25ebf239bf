import type { Json, JsonObject } from "../core/json.ts";

/** How a server stands. `failed` and `needs_auth` are tried again when a tool is called, `backoff` by itself. */
export type ConnectionState =
  | { kind: "disabled" | "idle" | "connecting" | "ready" }
  | { kind: "needs_auth" | "failed"; reason: string }
  | { kind: "backoff"; reason: string; failures: number; nextAtMs: number };

/** One call of a tool. */
export interface McpCall {
  tool: string;
  input: JsonObject;
  signal: AbortSignal;
  progress(data: Json): void;
  /** Whether it may be made again when nobody knows what became of it. */
  pure: boolean;
}
