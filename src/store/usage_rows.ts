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

/** A row as JSON, ready for `insertUsage`. Made at once, so that what waits for Postgres is one string a row. */
export type EncodedUsageRow = string & { readonly kind: "usage row" };

/** The 32 digits of a public id, which Postgres takes for a `uuid`. */
const uuid = (id: string | undefined) => id === undefined ? null : id.slice(id.indexOf("_") + 1);

/** Encodes a row. */
export function encodeUsageRow(row: UsageRow): EncodedUsageRow {
  const { usage } = row;
  const text = JSON.stringify({
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
    prompt_tokens: usage?.promptTokens ?? null,
    completion_tokens: usage?.completionTokens ?? null,
    cached_tokens: usage?.cachedTokens ?? null,
    reasoning_tokens: usage?.reasoningTokens ?? null,
    estimated: row.estimated,
    cost_micros: row.costMicros,
    started_at: new Date(row.startedAt).toISOString(),
    first_token_ms: row.firstTokenMs,
    duration_ms: row.durationMs,
    bytes_out: row.bytesOut,
    attempts: row.attempts,
  });
  return storable(text) as EncodedUsageRow;
}

/** Writes many rows in one statement; rows that are there already stay as they are. */
export async function insertUsage(db: Database, rows: readonly EncodedUsageRow[]): Promise<void> {
  await db.within(db.control`
    insert into hub.usage select * from jsonb_populate_recordset(null::hub.usage, ${`[${
    rows.join(",")
  }]`}::text::jsonb)
    on conflict (tenant_id, usage_id) do nothing`);
}

/**
 * JSON that `jsonb` takes: it has no NUL and no lone surrogates, so both become U+FFFD. Clients choose names of models,
 * and one row that Postgres refuses would hold up all others. `JSON.stringify` writes them as escapes.
 */
function storable(text: string): string {
  if (!/\\u(?:0000|d[89a-f])/.test(text)) return text;
  const escapes = /\\(?:(u0000|ud[89a-f][0-9a-f]{2})|.)/g;
  return text.replace(escapes, (escape, bad) => bad === undefined ? escape : "\\ufffd");
}
