import { type Id, toUuid } from "../core/id.ts";
import { wellFormedText } from "../core/well_formed.ts";
import type { Database } from "./database.ts";
import { pruneInBatches } from "./prune_batches.ts";

/** A call of a tool of an MCP server that has ended. Ids are public ids, empty where there is none. */
export interface McpCallRow {
  tenantId: string;
  callId: string;
  server: string;
  tool: string;
  keyId: string;
  toolCallId: string;
  runId: string;
  sessionId: string;
  handed: boolean;
  argsHash: string;
  outcome: "succeeded" | "failed" | "aborted" | "unknown";
  durationMs: number;
  bytesIn: number;
  bytesOut: number;
  /** Milliseconds since the epoch. */
  calledAtMs: number;
}

/** How long calls are kept. */
const KEPT_DAYS = 90;
const PRUNE_BATCH = 5000;

/** Writes calls; those that are there already stay. */
export async function insertMcpCalls(db: Database, calls: readonly McpCallRow[]): Promise<void> {
  if (calls.length === 0) return;
  const rows = calls.map((call) => ({
    tenant_id: call.tenantId,
    mcp_call_id: uuid(call.callId),
    server: wellFormedText(call.server),
    tool: wellFormedText(call.tool),
    key_id: uuid(call.keyId),
    tool_call_id: uuid(call.toolCallId),
    run_id: uuid(call.runId),
    session_id: uuid(call.sessionId),
    handed: call.handed,
    args_hash: call.argsHash,
    outcome: call.outcome,
    duration_ms: call.durationMs,
    bytes_in: call.bytesIn,
    bytes_out: call.bytesOut,
    called_at: new Date(call.calledAtMs).toISOString(),
  }));
  await db.within(db.control`
    insert into hub.mcp_calls (tenant_id, mcp_call_id, server, tool, key_id, tool_call_id, run_id, session_id, handed,
      args_hash, outcome, duration_ms, bytes_in, bytes_out, called_at)
    select tenant_id, mcp_call_id, server, tool, key_id, tool_call_id, run_id, session_id, handed, args_hash, outcome,
      duration_ms, bytes_in, bytes_out, called_at
    from jsonb_to_recordset(${
    db.control.json(rows)
  }::jsonb) as c(tenant_id uuid, mcp_call_id uuid, server text, tool text,
      key_id uuid, tool_call_id uuid, run_id uuid, session_id uuid, handed boolean, args_hash text, outcome text,
      duration_ms int, bytes_in bigint, bytes_out bigint, called_at timestamptz)
    on conflict (tenant_id, mcp_call_id) do nothing`);
}

/** Drops calls whose time is over. Gives how many there were. */
export async function pruneMcpCalls(db: Database): Promise<number> {
  return await pruneInBatches(PRUNE_BATCH, () =>
    db.within(db.control`
      delete from hub.mcp_calls where (tenant_id, mcp_call_id) in (
        select tenant_id, mcp_call_id from hub.mcp_calls
        where called_at < now() - ${KEPT_DAYS}::int * interval '1 day' limit ${PRUNE_BATCH})
      returning 1 as one`));
}

function uuid(id: string): string | null {
  return id === "" ? null : toUuid(id as Id);
}
