import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";
import type { ToolCallRow } from "./run_commit.ts";
import type { RunKey } from "./runs.ts";

/** The run's calls that have no outcome in the journal, in call order. */
export async function readOpenCalls(db: Database, key: RunKey): Promise<ToolCallRow[]> {
  const rows = await db.within(db.read<(ToolCallRow & { providerCallId: string | null })[]>`
    select tool_call_id as "toolCallId", step, idx as index, tool_name as "toolName", input,
      input_text as "inputText", args_hash as "argsHash", effect, idempotency_key as "idempotencyKey", state,
      provider_call_id as "providerCallId"
    from hub.tool_calls
    where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)}
      and state in ('awaiting_approval', 'ready', 'started')
    order by step, idx`);
  return rows.map(({ providerCallId, ...row }) => ({
    ...row,
    toolCallId: fromUuid("call", row.toolCallId),
    ...(providerCallId === null ? {} : { providerCallId }),
  }));
}
