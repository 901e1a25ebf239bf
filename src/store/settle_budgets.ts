import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** A reservation, by the call that it is for. */
export interface ReservationKey {
  tenantId: string;
  usageId: string;
}

/**
 * Settles calls by their usage rows: what they cost is spent, what was reserved for them is free. Doing it again
 * changes nothing; when real figures have replaced an estimate since, the difference is spent. A call without a
 * reservation is charged all the same, unless its reservation may have been deleted by `pruneMoney` since.
 */
export async function settleUsage(
  db: Database,
  keys: readonly ReservationKey[],
): Promise<void> {
  if (keys.length === 0) return;
  const sql = db.control;
  const asked = askedFor(sql, keys);
  await db.within(sql`
    with rows as (
      select u.tenant_id, u.usage_id, u.key_id, u.request_id, u.cost_micros, u.budget_windows
      from hub.usage u
      where (u.tenant_id, u.usage_id) in (${asked})
        and u.budget_windows is not null
        and (u.started_at > now() - interval '7 days' or exists (select 1 from hub.reservations r
          where r.tenant_id = u.tenant_id and r.reservation_id = u.usage_id))),
    ended as (
      insert into hub.reservations (tenant_id, reservation_id, key_id, request_id, amount_micros, lease_until, windows,
        settled_micros, settled_at)
      select tenant_id, usage_id, key_id, request_id, 0, now(), budget_windows, coalesce(cost_micros, 0), now()
      from rows
      on conflict (tenant_id, reservation_id) do update
        set former_micros = hub.reservations.settled_micros, settled_micros = excluded.settled_micros,
          settled_at = now()
        where hub.reservations.settled_at is null
          or hub.reservations.settled_micros is distinct from excluded.settled_micros
      returning tenant_id, key_id, windows, settled_micros - coalesce(former_micros, 0) as spent,
        case when released_at is null and former_micros is null then amount_micros else 0 end as held),
    ${countIn(sql)}`);
}

/** The newest reservation of a request that is neither settled nor freed; null when there is none. */
export async function readOpenReservation(
  db: Database,
  { tenantId, keyId, requestId }: { tenantId: string; keyId: string; requestId: string },
): Promise<{ usageId: string; windows: readonly string[]; createdAt: number } | null> {
  const rows = await db.within(
    db.read<{ reservation_id: string; windows: string[]; created_at: number }[]>`
    select reservation_id, windows, extract(epoch from created_at)::float8 * 1000 as created_at from hub.reservations
    where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)} and request_id = ${requestId}
      and settled_at is null and released_at is null
    order by created_at desc limit 1`,
  );
  const [row] = rows;
  if (row === undefined) return null;
  return {
    usageId: fromUuid("usg", row.reservation_id),
    windows: row.windows,
    createdAt: Math.round(row.created_at),
  };
}

/** Frees reservations of calls that never reached a provider. */
export async function releaseReservations(
  db: Database,
  keys: readonly ReservationKey[],
): Promise<void> {
  if (keys.length === 0) return;
  const sql = db.control;
  const asked = askedFor(sql, keys);
  await db.within(sql`
    with ended as (
      update hub.reservations set settled_micros = 0, settled_at = now()
      where (tenant_id, reservation_id) in (${asked})
        and settled_at is null
      returning tenant_id, key_id, windows, 0::bigint as spent,
        case when released_at is null then amount_micros else 0 end as held),
    ${countIn(sql)}`);
}

/** Their calls go on. Gives nothing back: one that is settled or gone stays so. */
export async function renewReservations(
  db: Database,
  keys: readonly ReservationKey[],
  leaseMs: number,
): Promise<void> {
  const sql = db.control;
  const asked = askedFor(sql, keys);
  await db.within(sql`
    update hub.reservations set lease_until = now() + ${leaseMs}::float8 * interval '1 millisecond'
    where (tenant_id, reservation_id) in (${asked})
      and settled_at is null and released_at is null`);
}

/** Reservations taken care of at a time. */
const SWEPT = 500;

/**
 * Ends reservations whose replica is gone: settles those whose usage row was written, frees the rest. Gives the number
 * of those freed.
 */
export async function sweepReservations(db: Database): Promise<number> {
  const sql = db.control;
  const due = await db.within(sql<{ tenant_id: string; reservation_id: string }[]>`
    select tenant_id, reservation_id from hub.reservations
    where settled_at is null and released_at is null and lease_until < now()
    order by lease_until limit ${SWEPT}`);
  if (due.length === 0) return 0;
  const keys = due.map((row): ReservationKey => ({
    tenantId: row.tenant_id,
    usageId: fromUuid("usg", row.reservation_id),
  }));
  await settleUsage(db, keys);
  const freed = await db.within(sql<{ freed: number }[]>`
    with ended as (
      update hub.reservations set released_at = now()
      where (tenant_id, reservation_id) in (${askedFor(sql, keys)})
        and settled_at is null and released_at is null and lease_until < now()
      returning tenant_id, key_id, windows, 0::bigint as spent, amount_micros as held),
    ${countIn(sql)}`);
  return freed[0]?.freed ?? 0;
}

/** Deletes rows that are no longer read: settled reservations of last week, minutes that are over (older hubs count in windows). */
export async function pruneMoney(db: Database): Promise<void> {
  const sql = db.control;
  await db.within(sql`
    delete from hub.reservations r using (
      select tenant_id, reservation_id from hub.reservations
      where settled_at < now() - interval '7 days' limit 5000) as old
    where r.tenant_id = old.tenant_id and r.reservation_id = old.reservation_id`);
  await db.within(
    sql`delete from hub.rate_slices where changed_at < now() - interval '10 minutes'`,
  );
  await db.within(
    sql`delete from hub.rate_windows where created_at < now() - interval '10 minutes'`,
  );
}

/** Tenants and ids of reservations, as rows. */
function askedFor(sql: Database["control"], keys: readonly ReservationKey[]) {
  const pairs = keys.map(({ tenantId, usageId }) => ({ t: tenantId, i: toUuid(usageId as Id) }));
  return sql`select t, i from jsonb_to_recordset(${
    sql.json(pairs)
  }::jsonb) as pair(t uuid, i uuid)`;
}

/**
 * The end of a statement whose `ended` has reservations: their windows, locked in one order for all statements, get
 * what was spent and lose what was held.
 */
function countIn(sql: Database["control"]) {
  return sql`
    sums as (
      select e.tenant_id, e.key_id, w.id as window_id, sum(e.spent)::bigint as spent, sum(e.held)::bigint as held
      from ended e, jsonb_array_elements_text(e.windows) as w(id)
      group by 1, 2, 3),
    locked as materialized (
      select s.* from sums s
      join hub.budget_windows b on b.tenant_id = s.tenant_id and b.key_id = s.key_id and b.window_id = s.window_id
      order by b.tenant_id, b.key_id, b.window_id
      for update of b),
    counted as (
      update hub.budget_windows b
      set spent_micros = b.spent_micros + l.spent, reserved_micros = b.reserved_micros - l.held
      from locked l
      where b.tenant_id = l.tenant_id and b.key_id = l.key_id and b.window_id = l.window_id
      returning 1)
    select (select count(*)::int from ended) as freed, (select count(*)::int from counted) as windows`;
}
