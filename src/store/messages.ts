import { Type } from "@sinclair/typebox";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { UIMessage, UIPart } from "../core/ui_message.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import type { Database } from "./database.ts";

/** A message with its place and the id its client gave it. */
export interface StoredMessage extends UIMessage {
  position: number;
  runId: string | null;
  clientId: string | null;
  createdAt: string;
  superseded: boolean;
}

interface Row {
  message_id: string;
  run_id: string | null;
  position: number;
  role: UIMessage["role"];
  client_id: string | null;
  metadata: JsonObject | null;
  superseded: boolean;
  created_at: Date;
  parts: UIPart[] | null;
}

/** Which messages. `inFlight` includes the answer of a run that still goes on. */
export interface MessageFilter {
  tenantId: string;
  sessionId: string;
  limit: number;
  after?: string;
  inFlight: boolean;
  superseded: boolean;
}

/** The position of a page's last message. */
const MessageCursor = Type.Tuple([Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 })]);

/** A page of a session's messages in order, parts included. */
export async function listMessages(
  db: Database,
  filter: MessageFilter,
): Promise<{ messages: StoredMessage[]; nextCursor: string | null }> {
  const sql = db.read;
  const after = filter.after === undefined ? 0 : decodeCursor(filter.after, MessageCursor)[0];
  const rows = await db.within(sql<Row[]>`
    select m.message_id, m.run_id, m.position, m.role, m.client_id, m.metadata, m.created_at,
      m.superseded_at is not null as superseded, p.parts
    from (
      select m.* from hub.messages m
      left join hub.runs r on r.tenant_id = m.tenant_id and r.run_id = m.run_id
      where m.tenant_id = ${filter.tenantId} and m.session_id = ${toUuid(filter.sessionId as Id)}
        and m.position > ${after}
        ${filter.superseded ? sql`` : sql`and m.superseded_at is null`}
        ${
    filter.inFlight
      ? sql``
      : sql`and (r.run_id is null or r.status not in ('queued', 'running', 'waiting'))`
  }
      order by m.position limit ${filter.limit + 1}) m
    left join lateral (
      select json_agg(p.content order by p.part_index) as parts from hub.parts p
      where p.tenant_id = m.tenant_id and p.message_id = m.message_id and p.content is not null) p on true
    order by m.position`);
  const page = rows.slice(0, filter.limit);
  const last = page.at(-1);
  return {
    messages: page.map(toMessage),
    nextCursor: rows.length > filter.limit && last !== undefined
      ? encodeCursor([last.position])
      : null,
  };
}

/** The conversation that the next run answers: everything but superseded messages and the one in flight. */
export async function readHistory(
  db: Database,
  key: { tenantId: string; sessionId: string },
): Promise<UIMessage[]> {
  return (await readStoredHistory(db, key)).map(toUiMessage);
}

/** The same with the places of messages and the ids that their clients gave them. */
export async function readStoredHistory(
  db: Database,
  key: { tenantId: string; sessionId: string },
): Promise<StoredMessage[]> {
  const filter = { ...key, limit: 100_000, inFlight: false, superseded: false };
  return (await listMessages(db, filter)).messages;
}

/** One message; null when this tenant has none of that id. */
export async function readMessage(
  db: Database,
  key: { tenantId: string; messageId: string },
): Promise<StoredMessage | null> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select m.message_id, m.run_id, m.position, m.role, m.client_id, m.metadata, m.created_at,
      m.superseded_at is not null as superseded,
      (select json_agg(p.content order by p.part_index) from hub.parts p
        where p.tenant_id = m.tenant_id and p.message_id = m.message_id and p.content is not null) as parts
    from hub.messages m
    where m.tenant_id = ${key.tenantId} and m.message_id = ${toUuid(key.messageId as Id)}`);
  return rows[0] === undefined ? null : toMessage(rows[0]);
}

/** The last user message of a conversation and the answers behind it, by their ids; empty when nobody has said anything. */
export async function readLastTurn(
  db: Database,
  key: { tenantId: string; sessionId: string },
): Promise<{ id: string; clientId: string | null }[]> {
  const session = toUuid(key.sessionId as Id);
  const rows = await db.within(db.read<Pick<Row, "message_id" | "client_id">[]>`
    select message_id, client_id from hub.messages
    where tenant_id = ${key.tenantId} and session_id = ${session} and superseded_at is null
      and position >= (select max(position) from hub.messages
        where tenant_id = ${key.tenantId} and session_id = ${session} and role = 'user' and superseded_at is null)
    order by position`);
  return rows.map((row) => ({ id: fromUuid("msg", row.message_id), clientId: row.client_id }));
}

/** Takes the answers behind the session's last user message out of the conversation, but for the new one; they stay readable. */
export async function supersedeLastAnswer(
  db: Database,
  key: { tenantId: string; sessionId: string; newMessageId: string },
): Promise<void> {
  const session = toUuid(key.sessionId as Id);
  await db.within(db.control`
    update hub.messages set superseded_at = now()
    where tenant_id = ${key.tenantId} and session_id = ${session} and role = 'assistant' and superseded_at is null
      and message_id <> ${toUuid(key.newMessageId as Id)}
      and position > (select max(position) from hub.messages
        where tenant_id = ${key.tenantId} and session_id = ${session} and role = 'user' and superseded_at is null)`);
}

/** The message as core knows it. */
export function toUiMessage(message: StoredMessage): UIMessage {
  const { id, role, parts, metadata } = message;
  return { id, role, parts, ...(metadata === undefined ? {} : { metadata }) };
}

function toMessage(row: Row): StoredMessage {
  return {
    id: fromUuid("msg", row.message_id),
    role: row.role,
    parts: row.parts ?? [],
    ...(row.metadata === null ? {} : { metadata: row.metadata }),
    position: row.position,
    runId: row.run_id === null ? null : fromUuid("run", row.run_id),
    clientId: row.client_id,
    createdAt: row.created_at.toISOString(),
    superseded: row.superseded,
  };
}
