import type { Usage } from "../core/usage.ts";
import { toStorableJson, wellFormedText } from "../core/well_formed.ts";
import type { Database, Sql } from "./database.ts";

/** The terminal row of one attempt that reached a provider, or of an answer from the cache. Ids are public ids, `startedAt` is milliseconds since the epoch. */
export interface UsageRow {
  usageId: string;
  tenantId: string;
  keyId: string;
  requestId: string;
  sessionId?: string;
  runId?: string;
  step?: number;
  /** Small letters and underscores: `proxy`, `run`, `embeddings` … */
  kind: string;
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
  /** No provider was asked. */
  fromCache?: boolean;
  /** Windows whose budgets it counts in; null for a key without budgets. */
  budgetWindows?: readonly string[] | null;
}

/** A row as one flat text, ready for `insertUsage`: what waits for Postgres is one string a row. */
export type EncodedUsageRow = string & { readonly kind: "usage row" };

/** Between columns and between rows; no column keeps either. */
const COLUMN = "\x1f";
const ROW = "\x1e";
/** Text that needs no care. */
const PLAIN = /^[\w ./:@-]*$/;

/** Encodes a row: its columns in the order of the table, an empty one for null. */
export function encodeUsageRow(row: UsageRow): EncodedUsageRow {
  const { usage } = row;
  return [
    row.tenantId,
    uuid(row.usageId),
    uuid(row.keyId),
    text(row.requestId),
    uuid(row.sessionId),
    uuid(row.runId),
    row.step,
    row.kind,
    text(row.provider),
    text(row.model),
    text(row.publicModel),
    row.streamed,
    row.outcome,
    row.status,
    text(row.errorCode),
    usage?.promptTokens,
    usage?.completionTokens,
    usage?.cachedTokens,
    usage?.reasoningTokens,
    row.estimated,
    row.costMicros,
    new Date(row.startedAt).toISOString(),
    row.firstTokenMs,
    row.durationMs,
    row.bytesOut,
    toStorableJson(row.attempts),
    usage?.cacheWriteTokens,
    row.fromCache,
    row.budgetWindows ? JSON.stringify(row.budgetWindows) : null,
  ].join(COLUMN) as EncodedUsageRow;
}

/** The rows that count in budgets: these want to be settled. */
export function countedRows(
  rows: readonly EncodedUsageRow[],
): { tenantId: string; usageId: string }[] {
  return rows.filter((row) => !row.endsWith(COLUMN)).map((row) => ({
    tenantId: row.slice(0, row.indexOf(COLUMN)),
    usageId: idsOfUsageRow(row).usageId,
  }));
}

/** The ids of an encoded row, to tell which one was lost. */
export function idsOfUsageRow(row: EncodedUsageRow): { usageId: string; requestId: string } {
  const [, usageId, , requestId] = row.split(COLUMN, 4);
  return { usageId: `usg_${usageId}`, requestId: requestId ?? "" };
}

/** Writes many rows in one statement; rows that are there already stay as they are. */
export async function insertUsage(db: Database, rows: readonly EncodedUsageRow[]): Promise<void> {
  if (rows.length > 0) await db.within(usageInsert(db.control, rows));
}

/**
 * The statement that does so, which may be a part of another one. All write rows in one order: two that have the same
 * rows at once wait for one another, and never each for the other. Taking the text apart costs Postgres half of what a
 * JSON of the same rows does; `offset 0` keeps it from doing so once for each column.
 */
export function usageInsert(sql: Sql, rows: readonly EncodedUsageRow[]) {
  return sql`
    insert into hub.usage (tenant_id, usage_id, key_id, request_id, session_id, run_id, step, kind, provider, model,
      public_model, streamed, outcome, status, error_code, prompt_tokens, completion_tokens, cached_tokens,
      reasoning_tokens, estimated, cost_micros, started_at, first_token_ms, duration_ms, bytes_out, attempts,
      cache_write_tokens, from_cache, budget_windows)
    select c[1]::uuid, c[2]::uuid, c[3]::uuid, c[4], c[5]::uuid, c[6]::uuid, c[7]::int, c[8], c[9], c[10],
      c[11], c[12]::boolean, c[13], c[14]::int, c[15], c[16]::bigint, c[17]::bigint, c[18]::bigint,
      c[19]::bigint, c[20]::boolean, c[21]::bigint, c[22]::timestamptz, c[23]::int, c[24]::int, c[25]::bigint,
      c[26]::jsonb, c[27]::bigint, coalesce(c[28]::boolean, false), c[29]::jsonb
    from (select string_to_array(line, ${COLUMN}::text, '') as c
      from string_to_table(${
    [...rows].sort().join(ROW)
  }::text, ${ROW}::text) as line offset 0) as lines
    on conflict (tenant_id, usage_id) do nothing`;
}

function text(value: string | null): string | null {
  if (value === null || PLAIN.test(value)) return value;
  return wellFormedText(value).replaceAll(COLUMN, "\ufffd").replaceAll(ROW, "\ufffd");
}

/** The 32 digits of a public id, which Postgres takes for a `uuid`. */
function uuid(id: string | undefined): string | undefined {
  return id?.slice(id.indexOf("_") + 1);
}
