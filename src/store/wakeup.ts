import { Type } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";

const RunIds = Type.Optional(Type.Array(Type.String({ pattern: "^run_[0-9a-f]{32}$" })));

/**
 * What one replica tells all others: where it is worth looking, never what is there. Members that a newer hub adds are
 * let through.
 */
export const Wakeup = Type.Object({
  /** Runs with new events in their logs. */
  runs: RunIds,
  /** Runs that somebody asked to stop, or said something to. */
  stops: RunIds,
  /** API keys have changed. */
  keys: Type.Optional(Type.Boolean()),
  /** Providers of the database have changed. */
  providers: Type.Optional(Type.Boolean()),
  /** Tools of MCP servers were approved. */
  mcp: Type.Optional(Type.Boolean()),
  /** Somebody has authorized the hub at an MCP server. */
  granted: Type.Optional(Type.Object({
    tenantId: Type.String(),
    server: Type.String(),
    /** The uuid of a key, or all of the tenant. */
    owner: Type.String({ pattern: "^(tenant|[0-9a-f-]{36})$" }),
  })),
  /** Runs were left by their replica, for anybody to go on with. */
  left: Type.Optional(Type.Boolean()),
  /** Says only that notifications arrive. */
  beat: Type.Optional(Type.Boolean()),
});
export type Wakeup = typeof Wakeup.static;

/** Postgres refuses payloads of 8000 bytes and more. */
export const MAX_PAYLOAD_BYTES = 7999;

const compiled = TypeCompiler.Compile(Wakeup);

/** The wakeup of a payload; null for one that no hub of this kind sends. */
export function parseWakeup(payload: string): Wakeup | null {
  try {
    const value: unknown = JSON.parse(payload);
    return compiled.Check(value) ? value : null;
  } catch {
    return null;
  }
}

/** The payloads that carry a wakeup: one, or several when its ids do not fit. */
export function toPayloads({ runs = [], stops = [], ...flags }: Wakeup): string[] {
  const payloads: string[] = [];
  let open: Wakeup = { ...flags };
  let bytes = JSON.stringify({ ...flags, runs: [], stops: [] }).length;
  const emptyBytes = JSON.stringify({ runs: [], stops: [] }).length;
  const add = (kind: "runs" | "stops", id: string) => {
    const size = id.length + 3;
    if (bytes + size > MAX_PAYLOAD_BYTES) {
      payloads.push(JSON.stringify(open));
      open = {};
      bytes = emptyBytes;
    }
    (open[kind] ??= []).push(id);
    bytes += size;
  };
  for (const id of stops) add("stops", id);
  for (const id of runs) add("runs", id);
  if (Object.keys(open).length > 0) payloads.push(JSON.stringify(open));
  return payloads;
}
