import type { Price } from "../core/cost.ts";
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

/** A model call of a run that was sent. Its usage row is still to come. */
export interface BegunCall {
  /** The usage row when nothing of the answer is known: an estimate of the input alone. */
  row: UsageRow & { runId: string };
  /** Epoch of the owner that sent it. */
  epoch: number;
  /** What its tokens cost; null when that is unknown. */
  price: Price | null;
  /** Whether its answer goes into the run's log; false for summaries and calls of tools. */
  isLogged: boolean;
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

/** What `error_code` says of a call whose owner was lost: its figures are an estimate until the owner's own row comes. */
export const ORPHANED = "orphaned";

/**
 * Writes many rows in one statement. A row that is there already stays as it is, unless it is the estimate of an orphaned
 * call and the new one is not: then the new figures replace it, in the totals of a run that is over and of its session
 * too. Begun calls of runs that have their row now are deleted.
 */
export async function insertUsage(db: Database, rows: readonly EncodedUsageRow[]): Promise<void> {
  if (rows.length === 0) return;
  const sql = db.control;
  const ofRuns = rows.filter(isOfRun);
  if (ofRuns.length === 0) return void await db.within(usageInsert(sql, rows));
  const keys = ofRuns.map((row) => {
    const [tenantId, usageId] = row.split(COLUMN, 2);
    return { t: tenantId, u: usageId };
  });
  await db.within(sql`
    with calls as (
      select t, u from jsonb_to_recordset(${sql.json(keys)}::jsonb) as call(t uuid, u uuid)
    ), guessed as (
      select g.* from hub.usage g join calls on g.tenant_id = t and g.usage_id = u
      where g.error_code = ${ORPHANED}
    ), written as (${usageInsert(sql, rows)}
      returning tenant_id, usage_id, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cost_micros
    ), ended as (
      delete from hub.model_calls where (tenant_id, usage_id) in (select t, u from calls)
    ), corrected as (
      select g.tenant_id, g.run_id, g.session_id,
        sum(coalesce(w.prompt_tokens, 0) - coalesce(g.prompt_tokens, 0))::bigint as prompt,
        sum(coalesce(w.completion_tokens, 0) - coalesce(g.completion_tokens, 0))::bigint as completion,
        sum(coalesce(w.cached_tokens, 0) - coalesce(g.cached_tokens, 0))::bigint as cached,
        sum(coalesce(w.reasoning_tokens, 0) - coalesce(g.reasoning_tokens, 0))::bigint as reasoning,
        sum(coalesce(w.cost_micros, 0) - coalesce(g.cost_micros, 0))::bigint as cost
      from guessed g join written w on w.tenant_id = g.tenant_id and w.usage_id = g.usage_id
      where g.run_id is not null group by g.tenant_id, g.run_id, g.session_id
    ), of_runs as (
      update hub.runs r set prompt_tokens = r.prompt_tokens + c.prompt,
        completion_tokens = r.completion_tokens + c.completion,
        total_tokens = r.total_tokens + c.prompt + c.completion, cached_tokens = r.cached_tokens + c.cached,
        reasoning_tokens = r.reasoning_tokens + c.reasoning, cost_micros = r.cost_micros + c.cost
      from corrected c where r.tenant_id = c.tenant_id and r.run_id = c.run_id and r.finished_at is not null
      returning r.tenant_id, r.run_id
    )
    update hub.sessions s set prompt_tokens = s.prompt_tokens + c.prompt,
      completion_tokens = s.completion_tokens + c.completion, cost_micros = s.cost_micros + c.cost
    from corrected c join of_runs o on o.tenant_id = c.tenant_id and o.run_id = c.run_id
    where s.tenant_id = c.tenant_id and s.session_id = c.session_id`);
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
    onePerCall(rows).sort().join(ROW)
  }::text, ${ROW}::text) as line offset 0) as lines
    on conflict (tenant_id, usage_id) do update set provider = excluded.provider, model = excluded.model,
      outcome = excluded.outcome, status = excluded.status, error_code = excluded.error_code,
      prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
      cached_tokens = excluded.cached_tokens, reasoning_tokens = excluded.reasoning_tokens,
      cache_write_tokens = excluded.cache_write_tokens, estimated = excluded.estimated,
      cost_micros = excluded.cost_micros, started_at = excluded.started_at,
      first_token_ms = excluded.first_token_ms, duration_ms = excluded.duration_ms,
      bytes_out = excluded.bytes_out, attempts = excluded.attempts,
      budget_windows = coalesce(excluded.budget_windows, usage.budget_windows)
      where usage.error_code = ${ORPHANED} and excluded.error_code is distinct from ${ORPHANED}`;
}

/** One row of each call, since a statement must not write a row twice: its own figures before an estimate. */
function onePerCall(rows: readonly EncodedUsageRow[]): EncodedUsageRow[] {
  const calls = new Map<string, EncodedUsageRow>();
  for (const row of rows) {
    const id = row.slice(0, row.indexOf(COLUMN, row.indexOf(COLUMN) + 1));
    const other = calls.get(id);
    if (other === undefined || isOrphaned(other)) calls.set(id, row);
  }
  return [...calls.values()];
}

/** The columns of `run_id` and `error_code` in a row. */
const RUN_ID = 5;
const ERROR_CODE = 14;

function isOfRun(row: EncodedUsageRow): boolean {
  return row.split(COLUMN, RUN_ID + 1)[RUN_ID] !== "";
}

function isOrphaned(row: EncodedUsageRow): boolean {
  return row.split(COLUMN, ERROR_CODE + 1)[ERROR_CODE] === ORPHANED;
}

function text(value: string | null): string | null {
  if (value === null || PLAIN.test(value)) return value;
  return wellFormedText(value).replaceAll(COLUMN, "\ufffd").replaceAll(ROW, "\ufffd");
}

/** The 32 digits of a public id, which Postgres takes for a `uuid`. */
function uuid(id: string | undefined): string | undefined {
  return id?.slice(id.indexOf("_") + 1);
}
