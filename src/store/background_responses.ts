import type { Json, JsonObject } from "../core/json.ts";
import { storableJsonInSteps } from "../core/large_json/encode_json.ts";
import type { Database } from "./database.ts";
import type { ResponseKey, ResponseState } from "./responses.ts";

/** What has come of a background response since the last write. */
export interface ResponseProgress {
  state: ResponseState;
  response: JsonObject;
  /** Events that are not stored yet, in order; the number of the first one. */
  events: JsonObject[];
  seqFrom: number;
  leaseMs: number;
}

/** Writes progress and renews the lease. False when the response is not in the making any more: cancelled, or deleted. */
export async function saveProgress(
  db: Database,
  { tenantId, responseId }: ResponseKey,
  { state, response, events, seqFrom, leaseMs }: ResponseProgress,
): Promise<boolean> {
  const responseJson = await storableJsonInSteps(response);
  const eventsJson = await storableJsonInSteps(events);
  const rows = await db.within(db.control`
    with owned as (
      update hub.responses set status = ${state}, response = ${responseJson}::text::jsonb,
        lease_until = now() + ${leaseMs}::int * interval '1 millisecond'
      where tenant_id = ${tenantId} and response_id = ${responseId}
        and (status in ('queued', 'in_progress') or status = ${state})
      returning tenant_id, response_id
    ), kept as (
      insert into hub.response_events (tenant_id, response_id, seq_from, events)
      select tenant_id, response_id, ${seqFrom}::int, ${eventsJson}::text::jsonb
      from owned where ${events.length > 0}::boolean
      on conflict (tenant_id, response_id, seq_from) do nothing
    )
    select 1 from owned`);
  return rows.length > 0;
}

/** Ends a response that is in the making, wherever that is. */
export async function cancelStored(
  db: Database,
  { tenantId, responseId }: ResponseKey,
): Promise<void> {
  await db.within(db.control`
    update hub.responses set status = 'cancelled',
      response = jsonb_set(response, '{status}', '"cancelled"'::jsonb)
    where tenant_id = ${tenantId} and response_id = ${responseId} and status in ('queued', 'in_progress')`);
}

/** Which of these are not in the making any more. */
export async function findEnded(
  db: Database,
  keys: readonly ResponseKey[],
): Promise<Set<string>> {
  const asked: Json = keys.map(({ tenantId, responseId }) => ({ t: tenantId, r: responseId }));
  const rows = await db.within(db.control<{ response_id: string }[]>`
    select a.r as response_id
    from jsonb_to_recordset(${JSON.stringify(asked)}::text::jsonb) as a(t uuid, r text)
    where not exists (select 1 from hub.responses r where r.tenant_id = a.t and r.response_id = a.r
      and r.status in ('queued', 'in_progress'))`);
  return new Set(rows.map(({ response_id }) => response_id));
}

/** The events behind one of this number. */
export async function readResponseEvents(
  db: Database,
  { tenantId, responseId }: ResponseKey,
  after: number,
): Promise<JsonObject[]> {
  const rows = await db.within(db.read<{ events: JsonObject[] }[]>`
    select events from hub.response_events
    where tenant_id = ${tenantId} and response_id = ${responseId}
      and seq_from > (select coalesce(max(seq_from), -1) from hub.response_events
        where tenant_id = ${tenantId} and response_id = ${responseId} and seq_from <= ${after + 1})
      - 1
    order by seq_from limit 200`);
  return rows.flatMap(({ events }) => events)
    .filter(({ sequence_number: number }) => typeof number === "number" && number > after);
}
