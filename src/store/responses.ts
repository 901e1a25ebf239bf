import { toUuid } from "../core/id.ts";
import type { Id } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { Access, Belonging } from "../core/ownership.ts";
import { storableJsonInSteps } from "../core/large_json/encode_json.ts";
import type { Database } from "./database.ts";
import { isReached } from "./ownership.ts";
import { pruneInBatches } from "./prune_batches.ts";

/** Which response. An id alone opens nothing: for a caller that does not reach it, it is not there. */
export interface ResponseKey {
  tenantId: string;
  responseId: string;
}

/** A response, as a caller asks for it. */
export type AskedResponse = Access & { responseId: string };

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

/** A response to be written, with its maker's key and whose it is: see `belongingOf`. */
export interface NewResponse extends ResponseKey, Omit<StoredResponse, "responseId"> {
  keyId: string;
  owner?: Belonging["owner"];
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
  const input = await storableJsonInSteps(row.input);
  const response = row.response === null ? null : await storableJsonInSteps(row.response);
  await db.within(db.control`
    with saved as (
      insert into hub.responses as r (tenant_id, response_id, key_id, target, lane, previous_id, status,
        background, input, response, lease_until, expires_at, owner)
      values (${row.tenantId}, ${row.responseId}, ${uuid(row.keyId)}, ${row.target}, ${row.lane},
        ${row.previousId},
        ${row.state}, ${row.background}, ${input}::text::jsonb,
        ${response}::text::jsonb,
        now() + ${row.leaseMs}::int * interval '1 millisecond',
        now() + ${KEPT_DAYS}::int * interval '1 day', ${row.owner ?? null})
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

/** The response with all those before it, oldest first; empty when the caller reaches none of this id. */
export async function readChain(
  db: Database,
  { responseId, ...access }: AskedResponse,
): Promise<StoredResponse[]> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    with recursive chain as (
      select r.*, 1 as depth from hub.responses r
      where r.tenant_id = ${access.tenantId} and r.response_id = ${responseId}
        and ${isReached(sql, access, sql`r`)} and r.expires_at > now()
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

/** The response; null when the caller reaches none of this id. */
export async function readResponse(
  db: Database,
  { responseId, ...access }: AskedResponse,
): Promise<StoredResponse | null> {
  const sql = db.read;
  const [row] = await db.within(sql<Row[]>`
    select response_id, target, lane, previous_id, status, background, input, response,
      coalesce(lease_until < now() and status in ('queued', 'in_progress'), false) as lapsed
    from hub.responses r
    where r.tenant_id = ${access.tenantId} and r.response_id = ${responseId}
      and ${isReached(sql, access, sql`r`)} and r.expires_at > now()`);
  return row === undefined ? null : fromRow(row);
}

/** Which of these items the caller may not refer to. */
export async function foreignItems(
  db: Database,
  { items, ...access }: Access & { items: readonly string[] },
): Promise<string[]> {
  const sql = db.read;
  const rows = await db.within(sql<{ item: string }[]>`
    select a.item from jsonb_array_elements_text(${JSON.stringify(items)}::text::jsonb) as a(item)
    where not exists (
      select 1 from hub.response_items i
      join hub.responses r on r.tenant_id = i.tenant_id and r.response_id = i.response_id
      where i.tenant_id = ${access.tenantId} and i.item_id = a.item and ${
    isReached(sql, access, sql`r`)
  })`);
  return rows.map(({ item }) => item);
}

/** Forgets a response; false when the caller reaches none of this id. */
export async function deleteResponse(
  db: Database,
  { responseId, ...access }: AskedResponse,
): Promise<boolean> {
  const sql = db.control;
  const rows = await db.within(sql`
    delete from hub.responses r
    where r.tenant_id = ${access.tenantId} and r.response_id = ${responseId}
      and ${isReached(sql, access, sql`r`)}
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
