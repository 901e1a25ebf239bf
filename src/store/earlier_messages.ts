import { type Id, toUuid } from "../core/id.ts";
import type { Json } from "../core/json.ts";
import { stringifyInSteps } from "../core/large_json/encode_json.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { Database } from "./database.ts";
import type { SessionKey } from "./sessions.ts";

/** Writes what was said elsewhere behind what a session has, in one statement. */
export async function addEarlierMessages(
  db: Database,
  { tenantId, sessionId, messages }: SessionKey & { messages: readonly UIMessage[] },
): Promise<void> {
  if (messages.length === 0) return;
  const sql = db.control;
  const said = messages.map(({ id, role }, place) => ({ id: toUuid(id as Id), role, place }));
  const parts = messages.flatMap(({ id, parts }) =>
    parts.map((part, index) => ({ id: toUuid(id as Id), index, type: part.type, part }))
  );
  const [saidJson, partsJson] = [
    await stringifyInSteps(said),
    await stringifyInSteps(parts as unknown as Json),
  ];
  await db.within(sql`
    with taken as (
      update hub.sessions set message_count = message_count + ${said.length}::int, updated_at = now()
      where tenant_id = ${tenantId} and session_id = ${toUuid(sessionId as Id)}
      returning session_id, message_count as last
    ), said as (
      insert into hub.messages (tenant_id, message_id, session_id, position, role)
      select ${tenantId}::uuid, m.id, t.session_id, t.last - ${
    said.length - 1
  }::int + m.place, m.role
      from taken t, json_to_recordset(${saidJson}::text::json)
        as m(id uuid, role text, place int)
    )
    insert into hub.parts (tenant_id, message_id, part_index, type, state, content)
    select ${tenantId}::uuid, p.id, p.index, p.type, p.part ->> 'state', p.part
    from taken t, json_to_recordset(${partsJson}::text::json)
      as p(id uuid, index int, type text, part json)`);
}
