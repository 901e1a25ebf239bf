import type { McpConnection } from "./connection.ts";
import { isOffered } from "./to_tool.ts";
import { toolName } from "./tool_names.ts";

/** A server as operators see it; nothing of its variables and headers. */
export interface ShownServer {
  name: string;
  prefix: string;
  transport: string;
  trust: boolean;
  state: string;
  /** Why it is not ready, where there is a reason. */
  reason: string | null;
  /** Milliseconds until it is tried again by itself. */
  retryInMs: number | null;
  /** Tools that agents may use. */
  tools: { name: string; ownName: string; description: string }[];
  /** Tools that cannot be used. */
  dropped: { name: string; reason: string }[];
  /** The last of what it wrote to stderr, without known secrets. */
  stderr: string;
}

/** Shows a server; `redact` takes known secrets out of what it says. */
export function showServer(
  { name, server, state, listing, stderr }: McpConnection,
  { nowMs, redact }: { nowMs: number; redact(text: string): string },
): ShownServer {
  const tools = (listing?.tools ?? []).filter((tool) => isOffered(server, tool.name));
  return {
    name,
    prefix: server.slug,
    transport: server.transport,
    trust: server.trust,
    state: state.kind,
    reason: "reason" in state ? redact(state.reason) : null,
    retryInMs: state.kind === "backoff" ? Math.max(0, Math.round(state.nextAtMs - nowMs)) : null,
    tools: tools.map(({ name: ownName, description }) => ({
      name: toolName(server, ownName),
      ownName,
      description,
    })),
    dropped: listing?.dropped ?? [],
    stderr: redact(stderr),
  };
}
