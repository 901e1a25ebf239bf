import type { AnswerFormat } from "../core/answer_format.ts";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { stringifyInSteps } from "../core/large_json/encode_json.ts";
import type { PreflightWhen } from "../core/preflight.ts";
import type { RunBudget } from "../core/run_budget.ts";
import type { UIPart } from "../core/ui_message.ts";
import { type Database, isUniqueViolation } from "./database.ts";
import { KEPT_HOURS } from "./idempotency.ts";

/** A run to begin, with the user message it answers. Ids are public ids. */
export interface NewRun {
  tenantId: string;
  sessionId: string;
  runId: string;
  /** The assistant message that the run will write. */
  messageId: string;
  agent: string;
  model: string;
  /** Who drives it: names the replica for operators. */
  owner: string;
  leaseMs: number;
  /** Sequence numbers that may be shown before they are committed. */
  reserve: number;
  /** Null when an earlier answer is made again: the message is there already. */
  userMessage: {
    messageId: string;
    /** The id the client gave its message: the same id again gives the same run. */
    clientId: string;
    /** Hash of what the message says: the same id with other content is a mistake. */
    hash: string;
    parts: UIPart[];
    metadata?: JsonObject;
  } | null;
  /** Whose model calls its are, and by which request they are booked. Null or left out: its session's key knows. */
  caller?: { keyId: string; requestId: string } | null;
  /** Servers that its caller handed credentials over for; none when left out. */
  handedServers?: readonly string[];
  /** What it may use up; null or left out: nothing was said. */
  budget?: RunBudget | null;
  /** The call of another run that asks for it. */
  parent?: { runId: string; toolCallId: string };
  /** Where words of others come from that it is begun with; none when left out. */
  outside?: readonly string[];
  /** What its answer is held to; null or left out: text. */
  format?: AnswerFormat | null;
  /** When its caller wants to be shown a plan; null or left out: nothing was said. */
  preflight?: PreflightWhen | null;
  /** What the request is known by: the same key again within a day gives the same run. Null or left out: by nothing. */
  idempotency?: { key: string; bodyHash: Uint8Array } | null;
}

/** What became of it. Only `created` has changed anything. */
export type CreatedRun =
  | { kind: "created"; epoch: number }
  | { kind: "duplicate"; runId: string; messageId: string; status: string }
  /** The message's id, or the request's key, came before with something else. */
  | { kind: "mismatch"; of: "message" | "key" }
  | { kind: "busy"; runId: string; messageId: string }
  | { kind: "no-session" };

/** The fencing token of a run's first owner. */
export const FIRST_EPOCH = 1;

/** The second suffices, unless the run that was in the way has ended meanwhile. */
const MAX_ATTEMPTS = 3;

interface Row {
  found: boolean;
  keyed_same: boolean | null;
  keyed_run: string | null;
  keyed_message: string | null;
  keyed_status: string | null;
  known_hash: string | null;
  known_run: string | null;
  known_message: string | null;
  known_status: string | null;
  active_run: string | null;
  active_message: string | null;
  created: boolean;
}

/**
 * Begins a run in one statement: takes the session's next places, writes the user message, the empty assistant
 * message and the run with its first lease. The session row is locked, so two starts at once become one and a refusal.
 */
export async function createRun(db: Database, run: NewRun): Promise<CreatedRun> {
  for (let attempt = 1;; attempt++) {
    try {
      return await tryCreateRun(db, run);
    } catch (error) {
      // A statement that waited for the lock does not see what the one before it has written: the next one does.
      if (!isUniqueViolation(error) || attempt === MAX_ATTEMPTS) throw error;
      if (run.idempotency) await forgetExpiredKey(db, run.tenantId, run.idempotency.key);
    }
  }
}

/** The session of the run that was begun under this key within its day; null when there is none. */
export async function findKeyedSession(
  db: Database,
  { tenantId, key }: { tenantId: string; key: string },
): Promise<string | null> {
  const rows = await db.within(db.read<{ session_id: string }[]>`
    select session_id from hub.runs where tenant_id = ${tenantId} and idem_key = ${key}
      and created_at > now() - ${KEPT_HOURS}::int * interval '1 hour'`);
  return rows[0] === undefined ? null : fromUuid("ses", rows[0].session_id);
}

async function forgetExpiredKey(db: Database, tenantId: string, key: string): Promise<void> {
  await db.within(db.control`
    update hub.runs set idem_key = null
    where tenant_id = ${tenantId} and idem_key = ${key}
      and created_at <= now() - ${KEPT_HOURS}::int * interval '1 hour'`);
}

async function tryCreateRun(db: Database, run: NewRun): Promise<CreatedRun> {
  const sql = db.control;
  const json = (value: unknown) => sql.json(value as Json);
  const { tenantId, userMessage, caller = null, format = null, parent = null } = run;
  const key = run.idempotency?.key ?? null;
  const bodyHash = run.idempotency?.bodyHash ?? null;
  const session = toUuid(run.sessionId as Id);
  const handed = run.handedServers === undefined ? null : json(run.handedServers);
  const places = userMessage === null ? 1 : 2;
  const parts = (userMessage?.parts ?? []).map((part, index) => ({ index, type: part.type, part }));
  const partsJson = await stringifyInSteps(parts as unknown as Json);
  const rows = await db.within(sql<Row[]>`
    with locked as materialized (
      select session_id, message_count from hub.sessions
      where tenant_id = ${tenantId} and session_id = ${session} for update
    ), known as (
      select m.content_hash, a.run_id, a.message_id, r.status
      from locked l
      join hub.messages m on m.tenant_id = ${tenantId} and m.session_id = l.session_id
        and m.client_id = ${userMessage?.clientId ?? null}::text
      left join lateral (
        select run_id, message_id from hub.messages
        where tenant_id = ${tenantId} and session_id = l.session_id and position > m.position and role = 'assistant'
        order by position limit 1) a on true
      left join hub.runs r on r.tenant_id = ${tenantId} and r.run_id = a.run_id
    ), keyed as (
      select r.run_id, r.message_id, r.status, r.idem_hash = ${bodyHash}::bytea as same
      from locked l
      join hub.runs r on r.tenant_id = ${tenantId} and r.session_id = l.session_id and r.idem_key = ${key}::text
        and r.created_at > now() - ${KEPT_HOURS}::int * interval '1 hour'
    ), active as (
      select r.run_id, r.message_id from locked l
      join hub.runs r on r.tenant_id = ${tenantId} and r.session_id = l.session_id
        and r.status in ('queued', 'running', 'waiting')
    ), taken as (
      update hub.sessions s set message_count = s.message_count + ${places}::int, run_count = s.run_count + 1,
        updated_at = now()
      from locked l
      where s.tenant_id = ${tenantId} and s.session_id = l.session_id
        and not exists (select 1 from known) and not exists (select 1 from active)
        and not exists (select 1 from keyed)
      returning s.session_id, s.message_count as last
    ), said as (
      insert into hub.messages (tenant_id, message_id, session_id, run_id, position, role, client_id, content_hash,
        metadata)
      select ${tenantId}::uuid, v.message_id, t.session_id, v.run_id, t.last - v.back, v.role, v.client_id, v.hash,
        v.metadata
      from taken t, (values
        (${
    userMessage === null ? null : toUuid(userMessage.messageId as Id)
  }::uuid, null::uuid, 1, 'user',
          ${userMessage?.clientId ?? null}::text, ${userMessage?.hash ?? null}::text,
          ${userMessage?.metadata === undefined ? null : json(userMessage.metadata)}::jsonb),
        (${toUuid(run.messageId as Id)}::uuid, ${
    toUuid(run.runId as Id)
  }::uuid, 0, 'assistant', null, null, null)
      ) as v(message_id, run_id, back, role, client_id, hash, metadata)
      where v.message_id is not null
    ), said_parts as (
      insert into hub.parts (tenant_id, message_id, part_index, type, state, content)
      select ${tenantId}::uuid, ${
    userMessage === null ? null : toUuid(userMessage.messageId as Id)
  }::uuid,
        p.index, p.type, p.part ->> 'state', p.part
      from taken t, json_to_recordset(${partsJson}::text::json) as p(index int, type text, part json)
    ), begun as (
      insert into hub.runs (tenant_id, run_id, session_id, message_id, agent, model, status, lease_owner, lease_epoch,
        lease_until, attempts, seq_reserved, idem_key, idem_hash, key_id, request_id,
        handed_servers, budget, answer_format, preflight, parent_run_id, parent_call_id, outside)
      select ${tenantId}::uuid, ${toUuid(run.runId as Id)}::uuid, t.session_id, ${
    toUuid(run.messageId as Id)
  }::uuid, ${run.agent}, ${run.model}, 'running', ${run.owner}, ${FIRST_EPOCH},
        now() + ${run.leaseMs}::int * interval '1 millisecond', 1, ${run.reserve}, ${key}::text,
        ${bodyHash}::bytea, ${caller === null ? null : toUuid(caller.keyId as Id)}::uuid,
        ${caller?.requestId ?? null}::text, ${handed}::jsonb, ${
    run.budget === undefined || run.budget === null ? null : json(run.budget)
  }::jsonb, ${format === null ? null : json(format)}::jsonb, ${run.preflight ?? null}::text,
        ${parent === null ? null : toUuid(parent.runId as Id)}::uuid, ${
    parent?.toolCallId ?? null
  }::text, ${json(run.outside ?? [])}::jsonb
      from taken t
      returning 1
    )
    select exists (select 1 from locked) as found, exists (select 1 from begun) as created,
      (select same from keyed) as keyed_same, (select run_id from keyed) as keyed_run,
      (select message_id from keyed) as keyed_message, (select status from keyed) as keyed_status,
      (select content_hash from known) as known_hash, (select run_id from known) as known_run,
      (select message_id from known) as known_message, (select status from known) as known_status,
      (select run_id from active) as active_run, (select message_id from active) as active_message`);
  return verdictOf(rows[0], userMessage?.hash ?? null);
}

function verdictOf(row: Row | undefined, hash: string | null): CreatedRun {
  if (row === undefined || !row.found) return { kind: "no-session" };
  if (row.created) return { kind: "created", epoch: FIRST_EPOCH };
  if (row.keyed_run !== null && row.keyed_message !== null) {
    if (row.keyed_same !== true) return { kind: "mismatch", of: "key" };
    return duplicate(row.keyed_run, row.keyed_message, row.keyed_status);
  }
  if (row.known_hash !== null) {
    if (row.known_hash !== hash) return { kind: "mismatch", of: "message" };
    if (row.known_run !== null && row.known_message !== null) {
      return duplicate(row.known_run, row.known_message, row.known_status);
    }
  }
  return {
    kind: "busy",
    runId: fromUuid("run", row.active_run ?? ""),
    messageId: fromUuid("msg", row.active_message ?? ""),
  };
}

function duplicate(run: string, message: string, status: string | null): CreatedRun {
  return {
    kind: "duplicate",
    runId: fromUuid("run", run),
    messageId: fromUuid("msg", message),
    status: status ?? "completed",
  };
}
