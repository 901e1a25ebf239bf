import { type Id, toUuid } from "../core/id.ts";
import type { Usage } from "../core/usage.ts";
import type { Database } from "./database.ts";

/** The terminal row of one attempt that reached a provider. Ids are public ids, `startedAt` is milliseconds since the epoch. */
export interface UsageRow {
  usageId: string;
  tenantId: string;
  keyId: string;
  requestId: string;
  sessionId?: string;
  runId?: string;
  step?: number;
  kind: "proxy" | "run";
  provider: string;
  model: string;
  publicModel: string;
  streamed: boolean;
  outcome: "ok" | "error" | "aborted" | "cut" | "timeout";
  status: number | null;
  errorCode: string | null;
  usage: Usage | null;
  estimated: boolean;
  costMicros: number | null;
  startedAt: number;
  firstTokenMs: number | null;
  durationMs: number;
  bytesOut: number;
  attempts: readonly unknown[];
}

const uuid = (id: string | undefined) => id === undefined ? null : toUuid(id as Id);

/** Writes many rows in one statement; rows that are there already stay as they are. */
export async function insertUsage(db: Database, rows: readonly UsageRow[]): Promise<void> {
  const sql = db.control;
  const input = rows.map((row) => ({
    tenant_id: row.tenantId,
    usage_id: uuid(row.usageId),
    key_id: uuid(row.keyId),
    request_id: row.requestId,
    session_id: uuid(row.sessionId),
    run_id: uuid(row.runId),
    step: row.step ?? null,
    kind: row.kind,
    provider: row.provider,
    model: row.model,
    public_model: row.publicModel,
    streamed: row.streamed,
    outcome: row.outcome,
    status: row.status,
    error_code: row.errorCode,
    prompt_tokens: row.usage?.promptTokens ?? null,
    completion_tokens: row.usage?.completionTokens ?? null,
    cached_tokens: row.usage?.cachedTokens ?? null,
    reasoning_tokens: row.usage?.reasoningTokens ?? null,
    estimated: row.estimated,
    cost_micros: row.costMicros,
    started_at: new Date(row.startedAt).toISOString(),
    first_token_ms: row.firstTokenMs,
    duration_ms: row.durationMs,
    bytes_out: row.bytesOut,
    attempts: row.attempts,
  }));
  await db.within(sql`
    insert into hub.usage select * from jsonb_populate_recordset(null::hub.usage, ${
    storableJson(input)
  }::text::jsonb)
    on conflict (tenant_id, usage_id) do nothing`);
}

/**
 * JSON that `jsonb` takes: it has no NUL and no lone surrogates, so both become U+FFFD. Clients choose names of models,
 * and one row that Postgres refuses would hold up all others.
 */
function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  // `JSON.stringify` writes them as these escapes.
  if (!/\\u(0000|d[89a-f][0-9a-f]{2})/.test(text)) return text;
  return JSON.stringify(
    value,
    (_, item) => typeof item === "string" ? item.toWellFormed().replaceAll("\0", "\ufffd") : item,
  );
}
