import { Type } from "@sinclair/typebox";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import { decodeCursor, encodeCursor, ExactTime } from "./cursor.ts";
import type { Database } from "./database.ts";

/** A session as the API shows it. Times are RFC 3339. */
export interface StoredSession {
  id: string;
  externalId: string | null;
  title: string | null;
  agent: string;
  metadata: JsonObject;
  status: "idle" | "running";
  activeRun: { runId: string; messageId: string; seq: number } | null;
  messageCount: number;
  usage: { promptTokens: number; completionTokens: number };
  /** Null when a run had no known price. */
  costMicros: number | null;
  createdAt: string;
  updatedAt: string;
}

interface Row {
  session_id: string;
  external_id: string | null;
  title: string | null;
  agent: string;
  metadata: JsonObject;
  message_count: number;
  prompt_tokens: number;
  completion_tokens: number;
  cost_micros: number | null;
  created_at: Date;
  updated_at: Date;
  active_run: string | null;
  active_message: string | null;
  active_seq: number | null;
  cursor_at: string;
}

/** Whose session. */
export interface SessionKey {
  tenantId: string;
  sessionId: string;
}

/** A session to create. */
export interface NewSession extends SessionKey {
  externalId?: string;
  title?: string;
  agent: string;
  metadata?: JsonObject;
  keyId: string;
}

function columns(sql: Database["read"]) {
  return sql`s.session_id, s.external_id, s.title, s.agent, s.metadata, s.message_count,
    s.prompt_tokens::float8 as prompt_tokens, s.completion_tokens::float8 as completion_tokens,
    case when s.unpriced_runs = 0 then s.cost_micros::float8 end as cost_micros, s.created_at, s.updated_at,
    r.run_id as active_run, r.message_id as active_message, r.last_seq::float8 as active_seq,
    to_char(s.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as cursor_at`;
}

function source(sql: Database["read"]) {
  return sql`hub.sessions s left join hub.runs r on r.tenant_id = s.tenant_id and r.session_id = s.session_id
    and r.status in ('queued', 'running', 'waiting')`;
}

/** Creates a session; one with the same external id is given back as it is. */
export async function createSession(db: Database, session: NewSession): Promise<StoredSession> {
  const sql = db.control;
  await db.within(sql`
    insert into hub.sessions (tenant_id, session_id, external_id, title, agent, metadata, key_id)
    values (${session.tenantId}, ${toUuid(session.sessionId as Id)}, ${session.externalId ?? null},
      ${session.title ?? null}, ${session.agent}, ${sql.json(session.metadata ?? {})},
      ${toUuid(session.keyId as Id)})
    on conflict do nothing`);
  const { tenantId, sessionId, externalId } = session;
  const stored = externalId === undefined
    ? await readSession(db, { tenantId, sessionId })
    : await readSessionByExternalId(db, { tenantId, externalId });
  if (stored === null) throw new Error("A session vanished between insert and read");
  return stored;
}

/** The session, or null when this tenant has none of that id. */
export async function readSession(db: Database, key: SessionKey): Promise<StoredSession | null> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`select ${columns(sql)} from ${source(sql)}
    where s.tenant_id = ${key.tenantId} and s.session_id = ${toUuid(key.sessionId as Id)}`);
  return rows[0] === undefined ? null : toSession(rows[0]);
}

/** The session that a client knows by a name of its own. */
export async function readSessionByExternalId(
  db: Database,
  key: { tenantId: string; externalId: string },
): Promise<StoredSession | null> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`select ${columns(sql)} from ${source(sql)}
    where s.tenant_id = ${key.tenantId} and s.external_id = ${key.externalId}`);
  return rows[0] === undefined ? null : toSession(rows[0]);
}

/** The key that made the session: whose its runs are. Null when there is no such session. */
export async function readSessionKey(db: Database, key: SessionKey): Promise<string | null> {
  const rows = await db.within(db.read<{ key_id: string }[]>`
    select key_id from hub.sessions
    where tenant_id = ${key.tenantId} and session_id = ${toUuid(key.sessionId as Id)}`);
  return rows[0] === undefined ? null : fromUuid("key", rows[0].key_id);
}

/** What to list. Times are RFC 3339; `after` is a page's `nextCursor`. */
export interface SessionFilter {
  tenantId: string;
  limit: number;
  after?: string;
  createdAfter?: string;
  createdBefore?: string;
  status?: "idle" | "running";
  agent?: string;
}

/** Of the last row of a page: when it was created, to the microsecond, and its id. */
const SessionCursor = Type.Tuple([
  ExactTime,
  Type.String({ pattern: "^ses_[0-9a-f]{32}$" }),
]);

/** A page of sessions, newest first. */
export async function listSessions(
  db: Database,
  filter: SessionFilter,
): Promise<{ sessions: StoredSession[]; nextCursor: string | null }> {
  const sql = db.read;
  // By way of text: the driver would cut a timestamp to milliseconds.
  const time = (text: string) => sql`${text}::text::timestamptz`;
  const cursor = filter.after === undefined ? null : decodeCursor(filter.after, SessionCursor);
  const rows = await db.within(sql<Row[]>`select ${columns(sql)} from ${source(sql)}
    where s.tenant_id = ${filter.tenantId}
    ${
    cursor === null
      ? sql``
      : sql`and (s.created_at, s.session_id) < (${time(cursor[0])}, ${
        toUuid(cursor[1] as Id)
      }::uuid)`
  }
    ${
    filter.createdAfter === undefined
      ? sql``
      : sql`and s.created_at >= ${time(filter.createdAfter)}`
  }
    ${
    filter.createdBefore === undefined
      ? sql``
      : sql`and s.created_at < ${time(filter.createdBefore)}`
  }
    ${filter.agent === undefined ? sql`` : sql`and s.agent = ${filter.agent}`}
    ${
    filter.status === undefined
      ? sql``
      : filter.status === "running"
      ? sql`and r.run_id is not null`
      : sql`and r.run_id is null`
  }
    order by s.created_at desc, s.session_id desc limit ${filter.limit + 1}`);
  const page = rows.slice(0, filter.limit);
  const last = page.at(-1);
  const more = rows.length > filter.limit && last !== undefined;
  return {
    sessions: page.map(toSession),
    nextCursor: more ? encodeCursor([last.cursor_at, fromUuid("ses", last.session_id)]) : null,
  };
}

/** Changes what is given; false when there is no such session. */
export async function updateSession(
  db: Database,
  change: SessionKey & { title?: string | null; agent?: string; metadata?: JsonObject },
): Promise<boolean> {
  const sql = db.control;
  const result = await db.within(sql`update hub.sessions set updated_at = now()
    ${change.title === undefined ? sql`` : sql`, title = ${change.title}`}
    ${change.agent === undefined ? sql`` : sql`, agent = ${change.agent}`}
    ${change.metadata === undefined ? sql`` : sql`, metadata = ${sql.json(change.metadata)}`}
    where tenant_id = ${change.tenantId} and session_id = ${toUuid(change.sessionId as Id)}`);
  return result.count > 0;
}

/** Deletes a session with all its messages and runs, unless a run is active. */
export async function deleteSession(
  db: Database,
  key: SessionKey,
): Promise<"deleted" | "busy" | "missing"> {
  const sql = db.control;
  const rows = await db.within(sql<{ found: boolean; deleted: boolean }[]>`
    with gone as (
      delete from hub.sessions s
      where s.tenant_id = ${key.tenantId} and s.session_id = ${toUuid(key.sessionId as Id)}
        and not exists (select 1 from hub.runs r where r.tenant_id = s.tenant_id
          and r.session_id = s.session_id and r.status in ('queued', 'running', 'waiting'))
      returning 1)
    select exists (select 1 from gone) as deleted, exists (select 1 from hub.sessions
      where tenant_id = ${key.tenantId} and session_id = ${toUuid(key.sessionId as Id)}) as found`);
  const row = rows[0];
  if (row?.deleted === true) return "deleted";
  return row?.found === true ? "busy" : "missing";
}

function toSession(row: Row): StoredSession {
  const active = row.active_run !== null && row.active_message !== null
    ? {
      runId: fromUuid("run", row.active_run),
      messageId: fromUuid("msg", row.active_message),
      seq: row.active_seq ?? 0,
    }
    : null;
  return {
    id: fromUuid("ses", row.session_id),
    externalId: row.external_id,
    title: row.title,
    agent: row.agent,
    metadata: row.metadata,
    status: active === null ? "idle" : "running",
    activeRun: active,
    messageCount: row.message_count,
    usage: { promptTokens: row.prompt_tokens, completionTokens: row.completion_tokens },
    costMicros: row.cost_micros,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}
