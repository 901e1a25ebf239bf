import { fromUuid, type Id, isId, toUuid } from "../core/id.ts";
import type { Json } from "../core/json.ts";
import type { Database } from "./database.ts";
import type { ToolCallRow } from "./run_commit.ts";
import type { RunKey } from "./runs.ts";

/** The run's calls that have no outcome in the journal, in call order. */
export async function readOpenCalls(db: Database, key: RunKey): Promise<ToolCallRow[]> {
  const rows = await db.within(db.read<OpenCallRow[]>`
    select tool_call_id as "toolCallId", step, idx as index, tool_name as "toolName", input,
      input_text as "inputText", args_hash as "argsHash", effect, idempotency_key as "idempotencyKey", state,
      provider_call_id as "providerCallId", def_hash as "defHash", outside
    from hub.tool_calls
    where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)}
      and state in ('awaiting_approval', 'ready', 'started')
    order by step, idx`);
  return rows.map(({ providerCallId, defHash, outside, ...row }) => ({
    ...row,
    toolCallId: fromUuid("call", row.toolCallId),
    ...(providerCallId === null ? {} : { providerCallId }),
    ...(defHash === null ? {} : { defHash }),
    ...(outside === null ? {} : { outside }),
  }));
}

interface OpenCallRow extends Omit<ToolCallRow, "providerCallId" | "defHash" | "outside"> {
  providerCallId: string | null;
  defHash: string | null;
  outside: string | null;
}

/** What a call of this session gave back; null when the session has none of that id with an outcome. */
export async function readOutcome(
  db: Database,
  key: { tenantId: string; sessionId: string; toolCallId: string },
): Promise<{ output: Json | null; errorText: string | null } | null> {
  if (!isId("call", key.toolCallId)) return null;
  const rows = await db.within(db.read<{ output: Json | null; errorText: string | null }[]>`
    select c.output, c.error_text as "errorText" from hub.tool_calls c
    join hub.runs r on r.tenant_id = c.tenant_id and r.run_id = c.run_id
    where c.tenant_id = ${key.tenantId} and r.session_id = ${toUuid(key.sessionId as Id)}
      and c.tool_call_id = ${toUuid(key.toolCallId)} and c.finished_at is not null`);
  return rows[0] ?? null;
}
