import { type Id, isId, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** A message that a new text takes the place of. */
export interface CutAt {
  tenantId: string;
  sessionId: string;
  /** The message's id, or the id that its client gave it. */
  messageId: string;
  /** Hash of what the new text says. */
  hash: string;
  /**
   * The message that the client has before it, as its id or client id; null when it has none. A client that says a message
   * that was never stored differs by it from one that edits a message which the hub does not know.
   */
  after: string | null;
}

/** What was found. `same`: the conversation ends with this very message; `unknown`: there is no such message. */
export type CutMessages = "cut" | "same" | "busy" | "unknown";

interface Found {
  position: number | null;
  same: boolean;
  last: boolean;
  fits: boolean;
  cut: boolean;
}

/**
 * Takes a user message, and all that was said behind it, out of the conversation, unless a run goes on. They stay
 * readable as superseded, with the ids that their clients gave them as former ones, so that those are free for what takes
 * their place. Done twice it changes nothing more.
 */
export async function cutMessages(db: Database, at: CutAt): Promise<CutMessages> {
  const { tenantId, messageId, hash, after } = at;
  const session = toUuid(at.sessionId as Id);
  const uuid = isId("msg", messageId) ? toUuid(messageId) : null;
  const before = after !== null && isId("msg", after) ? toUuid(after) : null;
  const [found] = await db.within(db.read<Found[]>`
    with shown as (
      select m.position, m.message_id, m.client_id, m.role, m.content_hash from hub.messages m
      where m.tenant_id = ${tenantId} and m.session_id = ${session} and m.superseded_at is null
    ), target as (
      select s.* from shown s
      where s.role = 'user' and (s.client_id = ${messageId}::text or s.message_id = ${uuid}::uuid)
      order by s.position desc limit 1
    ), tail as (
      select s.* from shown s order by s.position desc limit 1
    )
    select (select position from target) as position,
      coalesce((select content_hash = ${hash}::text from target), false) as same,
      not exists (select 1 from shown s join target t on s.position > t.position where s.role = 'user') as last,
      case when exists (select 1 from tail) then exists (select 1 from tail
        where client_id = ${after}::text or message_id = ${before}::uuid) else ${after}::text is null end as fits,
      exists (select 1 from hub.messages m
        where m.tenant_id = ${tenantId} and m.session_id = ${session} and m.superseded_at is not null
          and (m.former_client_id = ${messageId}::text or m.message_id = ${uuid}::uuid) and m.role = 'user'
          and not exists (select 1 from shown s where s.position > m.position)) as cut`);
  if (found === undefined || found.position === null) {
    return found?.cut === true || found?.fits === true ? "cut" : "unknown";
  }
  if (found.same && found.last) return "same";
  const changed = await db.within(db.control`
    update hub.messages m set superseded_at = now(), former_client_id = m.client_id, client_id = null
    where m.tenant_id = ${tenantId} and m.session_id = ${session} and m.position >= ${found.position}
      and m.superseded_at is null
      and not exists (select 1 from hub.runs r where r.tenant_id = ${tenantId} and r.session_id = ${session}
        and r.status in ('queued', 'running', 'waiting'))`);
  return changed.count > 0 ? "cut" : "busy";
}

/** Whether the session has a message of this id, or of this id of a client, that counts. */
export async function hasMessage(
  db: Database,
  { tenantId, sessionId, messageId }: { tenantId: string; sessionId: string; messageId: string },
): Promise<boolean> {
  const uuid = isId("msg", messageId) ? toUuid(messageId) : null;
  const [row] = await db.within(db.read<{ found: boolean }[]>`
    select exists (select 1 from hub.messages
      where tenant_id = ${tenantId} and session_id = ${
    toUuid(sessionId as Id)
  } and superseded_at is null
        and (client_id = ${messageId}::text or message_id = ${uuid}::uuid)) as found`);
  return row?.found === true;
}
