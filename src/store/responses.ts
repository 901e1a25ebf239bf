import { toUuid } from "../core/id.ts";
import type { Id } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import { toStorableJson } from "../core/well_formed.ts";
import type { Database } from "./database.ts";
import { pruneInBatches } from "./prune_batches.ts";

/** Whose response it is. An id alone opens nothing: another key's response is not there. */
export interface ResponseKey {
  tenantId: string;
  keyId: string;
  responseId: string;
}

/** Where a response stands; `elsewhere`: its provider knows. */
export type ResponseState =
  | "elsewhere"
  | "queued"
  | "in_progress"
  | "completed"
  | "incomplete"
  | "failed"
  | "cancelled";

/** A response that can be found again. */
export interface StoredResponse {
  responseId: string;
  /** `provider/model` that keeps it; null for what the hub keeps itself. */
  target: string | null;
  /** Which key of the provider's pool asked for it, from 1; null where there is no pool. */
  lane: number | null;
  previousId: string | null;
  state: ResponseState;
  background: boolean;
  /** What it added to the conversation; empty for what is kept elsewhere. */
  input: JsonObject[];
  response: JsonObject | null;
}

/** A response to be written. */
export interface NewResponse extends ResponseKey, Omit<StoredResponse, "responseId"> {
  /** Items that its provider keeps. */
  items: string[];
  /** For a background response: how long its maker may be silent. */
  leaseMs: number | null;
}

/** How long a response is kept, as at OpenAI. */
export const KEPT_DAYS = 30;
/** Responses that one conversation can have. */
const MAX_CHAIN = 2000;

const uuid = (id: string) => toUuid(id as Id);

/** Writes a response, and the items that go with it; again with what has become of it. */
export async function saveResponse(db: Database, row: NewResponse): Promise<void> {
  const { response } = row;
  await db.within(db.control`
    with saved as (
      insert into hub.responses as r (tenant_id, response_id, key_id, target, lane, previous_id, status,
        background, input, response, lease_until, expires_at)
      values (${row.tenantId}, ${row.responseId}, ${uuid(row.keyId)}, ${row.target}, ${row.lane},
        ${row.previousId},
        ${row.state}, ${row.background}, ${toStorableJson(row.input)}::text::jsonb,
        ${response === null ? null : toStorableJson(response)}::text::jsonb,
        now() + ${row.leaseMs}::int * interval '1 millisecond',
        now() + ${KEPT_DAYS}::int * interval '1 day')
      on conflict (tenant_id, response_id) do update set status = excluded.status
        where r.key_id = excluded.key_id
      returning tenant_id, response_id
    )
    insert into hub.response_items (tenant_id, item_id, response_id)
    select s.tenant_id, i.item, s.response_id
    from saved s, jsonb_array_elements_text(${JSON.stringify(row.items)}::text::jsonb) as i(item)
    on conflict (tenant_id, item_id) do nothing`);
}

interface Row {
  response_id: string;
  target: string | null;
  lane: number | null;
  previous_id: string | null;
  status: ResponseState;
  background: boolean;
  input: JsonObject[] | null;
  response: JsonObject | null;
  lapsed: boolean;
}

const LOST = {
  code: "server_error",
  message: "The hub that was making this response was lost: ask again",
};

/** What a row says; a background response whose maker is gone has failed. */
function fromRow(row: Row): StoredResponse {
  const state = row.lapsed ? "failed" : row.status;
  return {
    responseId: row.response_id,
    target: row.target,
    lane: row.lane,
    previousId: row.previous_id,
    state,
    background: row.background,
    input: row.input ?? [],
    response: row.lapsed && row.response !== null
      ? { ...row.response, status: state, error: LOST }
      : row.response,
  };
}

/** The response with all those before it, oldest first; empty when the key has none of this id. */
export async function readChain(
  db: Database,
  { tenantId, keyId, responseId }: ResponseKey,
): Promise<StoredResponse[]> {
  const rows = await db.within(db.read<Row[]>`
    with recursive chain as (
      select r.*, 1 as depth from hub.responses r
      where r.tenant_id = ${tenantId} and r.response_id = ${responseId} and r.key_id = ${
    uuid(keyId)
  }
        and r.expires_at > now()
      union all
      select r.*, c.depth + 1 from chain c
      join hub.responses r on r.tenant_id = c.tenant_id and r.response_id = c.previous_id
      where c.depth < ${MAX_CHAIN}
    )
    select response_id, target, lane, previous_id, status, background, input, response,
      coalesce(lease_until < now() and status in ('queued', 'in_progress'), false) as lapsed
    from chain order by depth desc`);
  return rows.map(fromRow);
}

/** The response; null when the key has none of this id. */
export async function readResponse(
  db: Database,
  { tenantId, keyId, responseId }: ResponseKey,
): Promise<StoredResponse | null> {
  const [row] = await db.within(db.read<Row[]>`
    select response_id, target, lane, previous_id, status, background, input, response,
      coalesce(lease_until < now() and status in ('queued', 'in_progress'), false) as lapsed
    from hub.responses
    where tenant_id = ${tenantId} and response_id = ${responseId} and key_id = ${uuid(keyId)}
      and expires_at > now()`);
  return row === undefined ? null : fromRow(row);
}

/** Which of these items the key may not refer to. */
export async function foreignItems(
  db: Database,
  { tenantId, keyId, items }: Omit<ResponseKey, "responseId"> & { items: readonly string[] },
): Promise<string[]> {
  const rows = await db.within(db.read<{ item: string }[]>`
    select a.item from jsonb_array_elements_text(${JSON.stringify(items)}::text::jsonb) as a(item)
    where not exists (
      select 1 from hub.response_items i
      join hub.responses r on r.tenant_id = i.tenant_id and r.response_id = i.response_id
      where i.tenant_id = ${tenantId} and i.item_id = a.item and r.key_id = ${uuid(keyId)})`);
  return rows.map(({ item }) => item);
}

/** Forgets a response; false when the key has none of this id. */
export async function deleteResponse(
  db: Database,
  { tenantId, keyId, responseId }: ResponseKey,
): Promise<boolean> {
  const rows = await db.within(db.control`
    delete from hub.responses
    where tenant_id = ${tenantId} and response_id = ${responseId} and key_id = ${uuid(keyId)}
    returning 1`);
  return rows.length > 0;
}

/** Responses that one statement drops. */
const PRUNE_BATCH = 100;

/** Drops expired responses that no younger one goes on from. Gives how many there were. */
export function pruneResponses(
  db: Database,
  { batch = PRUNE_BATCH }: { batch?: number } = {},
): Promise<number> {
  return pruneInBatches(batch, () =>
    db.within(db.control`
      delete from hub.responses
      where expires_at <= now() and (tenant_id, response_id) in (
        select r.tenant_id, r.response_id from hub.responses r
        where r.expires_at <= now() and not exists (select 1 from hub.responses n
          where n.tenant_id = r.tenant_id and n.previous_id = r.response_id)
        order by r.expires_at limit ${batch})
      returning 1`));
}
