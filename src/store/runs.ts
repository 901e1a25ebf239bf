import type { AnswerFormat } from "../core/answer_format.ts";
import type { SequencedEvent } from "../core/event.ts";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { PreflightWhen } from "../core/preflight.ts";
import type { Usage } from "../core/usage.ts";
import type { Database } from "./database.ts";
import type { OwnedRun } from "./run_commit.ts";

/** Whose run. */
export interface RunKey {
  tenantId: string;
  runId: string;
}

/** A run as it stands in Postgres. Times are milliseconds since the epoch. */
export interface StoredRun {
  runId: string;
  sessionId: string;
  messageId: string;
  agent: string;
  model: string;
  provider: string | null;
  status: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled";
  finishReason: string | null;
  epoch: number;
  lastSeq: number;
  reservedTo: number;
  usage: Usage;
  costMicros: number | null;
  /** A part of usage and cost is an estimate of the hub's. */
  estimated: boolean;
  error: JsonObject | null;
  createdAt: number;
  finishedAt: number | null;
  /** Oldest sequence number that the log still has; null when it has none. */
  firstLoggedSeq: number | null;
  /** How many texts were said to it. */
  steered: number;
  /** Whose key began it, and by which request; null for runs from before that was written down. */
  keyId: string | null;
  requestId: string | null;
  stopRequested: boolean;
  /** Servers that its caller handed credentials over for. */
  handedServers: string[];
  /** What its answer is held to; null for text. */
  format: AnswerFormat | null;
  /** When its caller wants to be shown a plan. */
  preflight: PreflightWhen | null;
  /** The call of another run that has begun it. */
  parent: { runId: string; toolCallId: string } | null;
}

/** The run, or null when this tenant has none of that id. */
export async function readRun(db: Database, key: RunKey): Promise<StoredRun | null> {
  const rows = await db.within(db.read<Record<string, Json>[]>`
    select r.run_id, r.session_id, r.message_id, r.agent, r.model, r.provider, r.status, r.finish_reason,
      r.lease_epoch::float8 as epoch, r.last_seq::float8 as last_seq, r.seq_reserved::float8 as seq_reserved,
      r.prompt_tokens::float8 as prompt_tokens, r.completion_tokens::float8 as completion_tokens,
      r.total_tokens::float8 as total_tokens, r.cached_tokens::float8 as cached_tokens,
      r.reasoning_tokens::float8 as reasoning_tokens, r.cost_micros::float8 as cost_micros, r.error, r.steer_count,
      r.key_id, r.request_id, r.cancel_requested_at is not null as stop, r.handed_servers, r.answer_format, r.preflight,
      r.parent_run_id, r.parent_call_id, exists (select 1 from hub.usage u
        where u.tenant_id = r.tenant_id and u.run_id = r.run_id and u.estimated) as estimated,
      extract(epoch from r.created_at)::float8 * 1000 as created_at,
      extract(epoch from r.finished_at)::float8 * 1000 as finished_at,
      (select min(seq_from)::float8 from hub.run_events e
        where e.tenant_id = r.tenant_id and e.run_id = r.run_id) as first_seq
    from hub.runs r where r.tenant_id = ${key.tenantId} and r.run_id = ${toUuid(key.runId as Id)}`);
  const row = rows[0];
  if (row === undefined) return null;
  const number = (name: string) => Number(row[name]);
  return {
    runId: key.runId,
    sessionId: fromUuid("ses", String(row["session_id"])),
    messageId: fromUuid("msg", String(row["message_id"])),
    agent: String(row["agent"]),
    model: String(row["model"]),
    provider: row["provider"] as string | null,
    status: row["status"] as StoredRun["status"],
    finishReason: row["finish_reason"] as string | null,
    epoch: number("epoch"),
    lastSeq: number("last_seq"),
    reservedTo: number("seq_reserved"),
    usage: {
      promptTokens: number("prompt_tokens"),
      completionTokens: number("completion_tokens"),
      totalTokens: number("total_tokens"),
      cachedTokens: number("cached_tokens"),
      reasoningTokens: number("reasoning_tokens"),
    },
    costMicros: row["cost_micros"] === null ? null : number("cost_micros"),
    estimated: row["estimated"] === true,
    error: row["error"] as JsonObject | null,
    createdAt: Math.round(number("created_at")),
    finishedAt: row["finished_at"] === null ? null : Math.round(number("finished_at")),
    firstLoggedSeq: row["first_seq"] === null ? null : number("first_seq"),
    steered: number("steer_count"),
    keyId: row["key_id"] === null ? null : fromUuid("key", String(row["key_id"])),
    requestId: row["request_id"] as string | null,
    stopRequested: row["stop"] === true,
    handedServers: row["handed_servers"] as string[] | null ?? [],
    format: row["answer_format"] as unknown as AnswerFormat | null,
    preflight: row["preflight"] as PreflightWhen | null,
    parent: row["parent_run_id"] === null ? null : {
      runId: fromUuid("run", String(row["parent_run_id"])),
      toolCallId: String(row["parent_call_id"]),
    },
  };
}

/** As much of a log as is read at a time, as Postgres stores it: the batch that passes it is the page's last. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** The run's committed events after `afterSeq`, in order, from at most `limit` batches of the log and `PAGE_BYTES`. */
export async function readEvents(
  db: Database,
  options: RunKey & { afterSeq: number; limit: number },
): Promise<SequencedEvent[]> {
  const rows = await db.within(db.read<{ events: SequencedEvent[] }[]>`
    select events from (
      select seq_from, events,
        sum(pg_column_size(events)) over (order by seq_from) - pg_column_size(events) as before_bytes
      from (
        select seq_from, events from hub.run_events
        where tenant_id = ${options.tenantId} and run_id = ${toUuid(options.runId as Id)}
          and seq_to > ${options.afterSeq} and seq_from >= coalesce((
            select max(seq_from) from hub.run_events
            where tenant_id = ${options.tenantId} and run_id = ${toUuid(options.runId as Id)}
              and seq_from <= ${options.afterSeq} + 1), 0)
        order by seq_from limit ${options.limit}) as page) as sized
    where before_bytes < ${PAGE_BYTES}
    order by seq_from`);
  return rows.flatMap((row) => row.events).filter((event) => event.seq > options.afterSeq);
}

/**
 * Gives a run up so that another replica can claim it at once. The epoch rises with it: a write or renewal of the former
 * owner that arrives later must not take the lease again. A claim that ends so does not count as one that failed.
 * `lost`: the owner before this one went without a word, which whoever claims next is to know.
 */
export async function releaseLease(
  db: Database,
  { tenantId, runId, epoch, lost = false }: RunKey & { epoch: number; lost?: boolean },
): Promise<void> {
  await db.within(db.control`
    update hub.runs set lease_owner = null, lease_until = case when ${lost}::boolean then now() end, lease_epoch = lease_epoch + 1,
      attempts = greatest(attempts - 1, 0)
    where tenant_id = ${tenantId} and run_id = ${toUuid(runId as Id)} and lease_epoch = ${epoch}
      and status = 'running'`);
}

/** Marks the run to be stopped by its owner; one that waits for answers, and waits no more, by whoever claims it. Null when there is no such run; `stopped` is false when it was over. */
export async function requestStop(
  db: Database,
  key: RunKey,
): Promise<{ stopped: boolean; status: string } | null> {
  const rows = await db.within(db.control<{ status: string; stopped: boolean }[]>`
    with marked as (
      update hub.runs set cancel_requested_at = coalesce(cancel_requested_at, now()),
        status = case when status = 'waiting' then 'queued' else status end
      where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)}
        and status in ('queued', 'running', 'waiting')
      returning run_id
    ), closed as (
      update hub.approvals a set state = 'cancelled', decided_at = now()
      from marked m
      where a.tenant_id = ${key.tenantId} and a.run_id = m.run_id and a.state = 'pending')
    select r.status, exists (select 1 from marked) as stopped from hub.runs r
    where r.tenant_id = ${key.tenantId} and r.run_id = ${toUuid(key.runId as Id)}`);
  const row = rows[0];
  return row === undefined ? null : { stopped: row.stopped, status: row.status };
}

/** Those of these runs that were asked something: to stop, or to read what was said to them. */
export async function listRequests(
  db: Database,
  runs: readonly RunKey[],
): Promise<Map<string, OwnedRun>> {
  const input = runs.map((run) => ({ tenant_id: run.tenantId, run_id: toUuid(run.runId as Id) }));
  const rows = await db.within(db.control<AskedRow[]>`
    select r.run_id, r.cancel_requested_at is not null as stop, r.steer_count as steered
    from jsonb_to_recordset(${db.control.json(input)}::jsonb) as i(tenant_id uuid, run_id uuid)
    join hub.runs r on r.tenant_id = i.tenant_id and r.run_id = i.run_id
    where r.cancel_requested_at is not null or r.steer_count > 0`);
  return askedRuns(rows);
}

/** A run's row as statements that touch it give it back. */
export interface AskedRow {
  run_id: string;
  stop: boolean;
  steered: number;
}

/** By run, what it has been asked. */
export function askedRuns(rows: readonly AskedRow[]): Map<string, OwnedRun> {
  return new Map(
    rows.map(({ run_id, stop, steered }) => [
      fromUuid("run", run_id),
      { stopRequested: stop, steered },
    ]),
  );
}

/** Renews leases of runs that have written nothing for a while. Runs missing from the answer are fenced. */
export async function renewLeases(
  db: Database,
  options: { runs: (RunKey & { epoch: number })[]; leaseMs: number },
): Promise<Map<string, OwnedRun>> {
  const input = options.runs.map((run) => ({
    tenant_id: run.tenantId,
    run_id: toUuid(run.runId as Id),
    epoch: run.epoch,
  }));
  const rows = await db.within(db.runs<AskedRow[]>`
    update hub.runs r set lease_until = now() + ${options.leaseMs}::int * interval '1 millisecond'
    from jsonb_to_recordset(${
    db.runs.json(input)
  }::jsonb) as i(tenant_id uuid, run_id uuid, epoch bigint)
    where r.tenant_id = i.tenant_id and r.run_id = i.run_id and r.lease_epoch = i.epoch and r.status = 'running'
    returning r.run_id, r.cancel_requested_at is not null as stop, r.steer_count as steered`);
  return askedRuns(rows);
}
