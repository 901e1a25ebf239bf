import { type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** A window that a call counts in, and where its cap stands in the key's policy. */
export interface WindowClaim {
  /** `2026-11-21`, `2026-11`, `total`; of one agent alone `agent NAME total` and so on. */
  id: string;
  /** Members of the policy that lead to the budget: `["budgets", "daily"]`. */
  path: readonly string[];
}

/** A wish for money before it is spent. */
export interface ReservationWish {
  tenantId: string;
  keyId: string;
  /** The id of the usage row that will settle it. */
  usageId: string;
  requestId: string;
  amountMicros: number;
  leaseMs: number;
  windows: readonly WindowClaim[];
}

/** How a window stood when it was asked for; caps are those of the key's row, not of any cache. */
export interface WindowState {
  id: string;
  spentMicros: number;
  reservedMicros: number;
  hardMicros: number | null;
  softMicros: number | null;
}

interface VerdictRow {
  fits: boolean;
  found: number;
  window_id: string | null;
  spent: number | null;
  reserved: number | null;
  hard: number | null;
  soft: number | null;
}

/**
 * Reserves in all windows or in none, in one statement: `spent + reserved + amount <= cap` is asked of rows that are
 * locked. Windows that do not stand yet are made first, with what the key has spent in them.
 */
export async function reserve(
  db: Database,
  wish: ReservationWish,
): Promise<{ fits: boolean; windows: WindowState[] }> {
  for (let attempt = 0; attempt < 2; attempt++) {
    const rows = await tryReserve(db, wish);
    const first = rows[0];
    if (first !== undefined && first.found === wish.windows.length) {
      return { fits: first.fits, windows: rows.map(toWindow) };
    }
    await openWindows(db, wish);
  }
  throw new Error("The windows of a budget vanished");
}

async function tryReserve(db: Database, wish: ReservationWish): Promise<VerdictRow[]> {
  const sql = db.control;
  const { tenantId, amountMicros, windows } = wish;
  const keyId = toUuid(wish.keyId as Id);
  const claims = windows.map(({ id, path }) => ({ id, path: `{${path.join(",")}}` }));
  return await db.within(sql<VerdictRow[]>`
    with asked as (
      select id, path::text[] as path
      from jsonb_to_recordset(${sql.json(claims)}::jsonb) as claim(id text, path text)),
    locked as materialized (
      select b.window_id, b.spent_micros, b.reserved_micros,
        (k.policy #>> (a.path || 'hardMicros'::text))::bigint as hard,
        (k.policy #>> (a.path || 'softMicros'::text))::bigint as soft
      from hub.budget_windows b
      join asked a on a.id = b.window_id
      join hub.api_keys k on k.tenant_id = b.tenant_id and k.key_id = b.key_id
      where b.tenant_id = ${tenantId} and b.key_id = ${keyId}
      order by b.window_id
      for update of b),
    verdict as materialized (
      select count(*)::int as found,
        coalesce(bool_and(hard is null or spent_micros + reserved_micros + ${amountMicros}::bigint <= hard), true)
          and count(*) = ${windows.length}::int as fits
      from locked),
    held as (
      update hub.budget_windows b set reserved_micros = b.reserved_micros + ${amountMicros}::bigint
      from verdict v
      where v.fits and b.tenant_id = ${tenantId} and b.key_id = ${keyId}
        and b.window_id in (select id from asked)
      returning 1),
    kept as (
      insert into hub.reservations (tenant_id, reservation_id, key_id, request_id, amount_micros, lease_until, windows)
      select ${tenantId}, ${
    toUuid(wish.usageId as Id)
  }::uuid, ${keyId}, ${wish.requestId}, ${amountMicros}::bigint,
        now() + ${wish.leaseMs}::float8 * interval '1 millisecond',
        (select jsonb_agg(id order by id) from asked)
      from verdict v where v.fits
      returning 1)
    select v.fits, v.found, l.window_id, l.spent_micros::float8 as spent, l.reserved_micros::float8 as reserved,
      l.hard::float8 as hard, l.soft::float8 as soft
    from verdict v left join locked l on true`);
}

/** Makes windows that are not there, with what usage rows say was spent in them. */
async function openWindows(db: Database, wish: ReservationWish): Promise<void> {
  const sql = db.control;
  const keyId = toUuid(wish.keyId as Id);
  const ids = wish.windows.map(({ id }) => id).sort();
  await db.within(sql`
    insert into hub.budget_windows (tenant_id, key_id, window_id, spent_micros, seeded_micros)
    select ${wish.tenantId}, ${keyId}, w.id, s.micros, s.seeded
    from jsonb_array_elements_text(${sql.json(ids)}::jsonb) as w(id),
    lateral (
      select regexp_replace(w.id, '^.* ', '') as period, substring(w.id from '^agent (.*) ') as agent) as p,
    lateral (
      select coalesce(sum(u.cost_micros), 0)::bigint as micros,
        coalesce(sum(u.cost_micros) filter (where u.budget_windows is null or not u.budget_windows ? w.id),
          0)::bigint as seeded
      from hub.usage u
      left join hub.runs r on p.agent is not null and r.tenant_id = u.tenant_id and r.run_id = u.run_id
      where u.tenant_id = ${wish.tenantId} and u.key_id = ${keyId}
        and (p.agent is null or r.agent = p.agent)
        and (p.period = 'total' or u.started_at >= (rpad(p.period, 10, '-01') || 'T00:00:00Z')::timestamptz)) as s
    order by w.id
    on conflict do nothing`);
}

/** Windows of a key that stand now, by id. */
export async function readWindows(
  db: Database,
  key: { tenantId: string; keyId: string; ids: readonly string[] },
): Promise<Omit<WindowState, "hardMicros" | "softMicros">[]> {
  const sql = db.read;
  const rows = await db.within(sql<{ window_id: string; spent: number; reserved: number }[]>`
    select window_id, spent_micros::float8 as spent, reserved_micros::float8 as reserved
    from hub.budget_windows
    where tenant_id = ${key.tenantId} and key_id = ${toUuid(key.keyId as Id)}
      and window_id in (select jsonb_array_elements_text(${sql.json([...key.ids])}::jsonb))`);
  return rows.map((row) => ({
    id: row.window_id,
    spentMicros: row.spent,
    reservedMicros: row.reserved,
  }));
}

function toWindow(row: VerdictRow): WindowState {
  return {
    id: row.window_id ?? "",
    spentMicros: row.spent ?? 0,
    reservedMicros: row.reserved ?? 0,
    hardMicros: row.hard,
    softMicros: row.soft,
  };
}
