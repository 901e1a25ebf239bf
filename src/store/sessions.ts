import { Type } from "@sinclair/typebox";
import { createCheck } from "../config/check_value.ts";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import { MAX_CLIENT_ID_LENGTH, MAX_METADATA_KEY_LENGTH, MAX_TITLE_LENGTH } from "../core/limits.ts";
import type { JsonObject } from "../core/json.ts";
import type { Access } from "../core/ownership.ts";
import { decodeCursor, encodeCursor, ExactTime } from "./cursor.ts";
import type { Database } from "./database.ts";
import { isReached, ownerRef, refsOf } from "./ownership.ts";

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
  /** Null: its own key; see `belongingOf`. */
  owner?: string | null;
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

const checkFacts = createCheck(
  Type.Object({
    title: Type.Optional(
      Type.Union([Type.String({ maxLength: MAX_TITLE_LENGTH }), Type.Null()]),
    ),
    externalId: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_CLIENT_ID_LENGTH })),
    metadata: Type.Optional(
      Type.Record(Type.String({ maxLength: MAX_METADATA_KEY_LENGTH }), Type.Unknown()),
    ),
  }),
  "given",
);

/**
 * Creates a session; one of the same owner with the same external id is given back as it is. Throws `invalid_request` for a
 * title, an external id or metadata past their bounds.
 */
export async function createSession(db: Database, session: NewSession): Promise<StoredSession> {
  checkFacts(session);
  const sql = db.control;
  const { tenantId, sessionId, externalId = null, keyId, owner = null } = session;
  await db.within(sql`
    insert into hub.sessions (tenant_id, session_id, external_id, title, agent, metadata, key_id, owner)
    values (${tenantId}, ${toUuid(sessionId as Id)}, ${externalId}, ${session.title ?? null},
      ${session.agent}, ${sql.json(session.metadata ?? {})}, ${toUuid(keyId as Id)}, ${owner})
    on conflict do nothing`);
  const [ofKey, ofOwner] = refsOf({ tenantId, keyId, owner });
  const read = db.read;
  const [row] = await db.within(read<Row[]>`select ${columns(read)} from ${source(read)}
    where s.tenant_id = ${tenantId} and ${
    externalId === null
      ? read`s.session_id = ${toUuid(sessionId as Id)}`
      : read`s.external_id = ${externalId} and ${ownerRef(read, read`s`)} = ${ofOwner ?? ofKey}`
  }`);
  if (row === undefined) throw new Error("A session vanished between insert and read");
  return toSession(row);
}

/** The session, or null when the tenant has none of this id that the caller reaches. */
export async function readSession(
  db: Database,
  { sessionId, ...access }: Access & { sessionId: string },
): Promise<StoredSession | null> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`select ${columns(sql)} from ${source(sql)}
    where s.tenant_id = ${access.tenantId} and s.session_id = ${toUuid(sessionId as Id)}
      and ${isReached(sql, access, sql`s`)}`);
  return rows[0] === undefined ? null : toSession(rows[0]);
}

/** Two owners may use the same external id, and a caller that reaches both has to say which it means. */
export interface FoundByExternalId {
  session: StoredSession;
  /** Several sessions that are none of the caller's own have this external id; this is the newest. */
  isAmbiguous: boolean;
}

/**
 * The session that a client knows by a name of its own, or null. One that the caller's own owner has is meant before those
 * of others.
 */
export async function readSessionByExternalId(
  db: Database,
  { externalId, ...access }: Access & { externalId: string },
): Promise<FoundByExternalId | null> {
  const sql = db.read;
  const [key, owner] = refsOf(access);
  const rows = await db.within(sql<(Row & { is_own: boolean })[]>`
    select ${columns(sql)}, ${ownerRef(sql, sql`s`)} in (${key}::text, ${owner}::text) as is_own
    from ${source(sql)}
    where s.tenant_id = ${access.tenantId} and s.external_id = ${externalId}
      and ${isReached(sql, access, sql`s`)}
    order by coalesce(${ownerRef(sql, sql`s`)} in (${key}::text, ${owner}::text), false) desc,
      s.created_at desc, s.session_id desc
    limit 2`);
  const [first] = rows;
  if (first === undefined) return null;
  return { session: toSession(first), isAmbiguous: !first.is_own && rows.length > 1 };
}

/** The key that made the session: whose its runs are. Null when there is no such session. */
export async function readSessionKey(db: Database, key: SessionKey): Promise<string | null> {
  const rows = await db.within(db.read<{ key_id: string }[]>`
    select key_id from hub.sessions
    where tenant_id = ${key.tenantId} and session_id = ${toUuid(key.sessionId as Id)}`);
  return rows[0] === undefined ? null : fromUuid("key", rows[0].key_id);
}

/** What to list, for whom. Times are RFC 3339; `after` is a page's `nextCursor`. */
export interface SessionFilter extends Access {
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

/** A page of the sessions that the caller reaches, newest first. */
export async function listSessions(
  db: Database,
  filter: SessionFilter,
): Promise<{ sessions: StoredSession[]; nextCursor: string | null }> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select ${columns(sql)} from (${pageOf(sql, filter)}) s
    left join hub.runs r on r.tenant_id = s.tenant_id and r.session_id = s.session_id
      and r.status in ('queued', 'running', 'waiting')
    order by s.created_at desc, s.session_id desc limit ${filter.limit + 1}`);
  const page = rows.slice(0, filter.limit);
  const last = page.at(-1);
  const more = rows.length > filter.limit && last !== undefined;
  return {
    sessions: page.map(toSession),
    nextCursor: more ? encodeCursor([last.cursor_at, fromUuid("ses", last.session_id)]) : null,
  };
}

/** Each of the caller's owners is one keyset scan of an index: sorting all its sessions would cost more with each page. */
function pageOf(sql: Database["read"], filter: SessionFilter) {
  const { sessions = "owner" } = filter;
  if (sessions !== "owner") return scanOf(sql, filter, isReached(sql, filter, sql`s`));
  const [key, owner] = refsOf(filter);
  const ref = ownerRef(sql, sql`s`);
  if (owner === null) return scanOf(sql, filter, sql`${ref} = ${key}`);
  return sql`
    (${scanOf(sql, filter, sql`${ref} = ${owner}`)}) union all
    (${scanOf(sql, filter, sql`${ref} = ${key}`)})`;
}

function scanOf(
  sql: Database["read"],
  filter: SessionFilter,
  reached: ReturnType<Database["read"]>,
) {
  // By way of text: the driver would cut a timestamp to milliseconds.
  const time = (text: string) => sql`${text}::text::timestamptz`;
  const { after, createdAfter, createdBefore, agent, status, limit } = filter;
  const cursor = after === undefined ? null : decodeCursor(after, SessionCursor);
  const active = sql`exists (select 1 from hub.runs r where r.tenant_id = s.tenant_id
    and r.session_id = s.session_id and r.status in ('queued', 'running', 'waiting'))`;
  const conditions = [
    reached,
    cursor === null
      ? null
      : sql`(s.created_at, s.session_id) < (${time(cursor[0])}, ${toUuid(cursor[1] as Id)}::uuid)`,
    createdAfter === undefined ? null : sql`s.created_at >= ${time(createdAfter)}`,
    createdBefore === undefined ? null : sql`s.created_at < ${time(createdBefore)}`,
    agent === undefined ? null : sql`s.agent = ${agent}`,
    status === undefined ? null : status === "running" ? active : sql`not ${active}`,
  ].filter((condition) => condition !== null);
  const where = conditions.reduce((all, condition) => sql`${all} and ${condition}`);
  return sql`select s.* from hub.sessions s where s.tenant_id = ${filter.tenantId} and ${where}
    order by s.created_at desc, s.session_id desc limit ${limit + 1}`;
}

/** Changes what is given; false when there is no such session. */
export async function updateSession(
  db: Database,
  change: SessionKey & { title?: string | null; agent?: string; metadata?: JsonObject },
): Promise<boolean> {
  checkFacts(change);
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
