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

/** What became of a wish, and how its windows stood before it, by id. */
export interface Verdict {
  fits: boolean;
  windows: WindowState[];
}

/** How a wish gets its verdict, null while windows of its do not stand; and how those are made. */
export interface Deciding {
  decide(wish: ReservationWish): Promise<Verdict | null>;
  open(wish: ReservationWish): Promise<void>;
}

/** Reserves in all windows or in none. Windows that do not stand yet are made first, with what the key has spent in them. */
export async function reserve(
  db: Database,
  wish: ReservationWish,
  { decide, open }: Deciding = {
    decide: async (alone) => (await reserveAll(db, alone.tenantId, [alone]))[0] ?? null,
    open: (alone) => openWindows(db, alone),
  },
): Promise<Verdict> {
  for (let attempt = 0; attempt < 2; attempt++) {
    const verdict = await decide(wish);
    if (verdict !== null) return verdict;
    await open(wish);
  }
  throw new Error("The windows of a budget vanished");
}

interface AllRow {
  /** Key, window, spent, reserved, hard and soft cap. */
  windows: [string, string, number, number, number | null, number | null][] | null;
  /** Keys whose windows all stand: whether all wishes fit, or else which of them, in their order. */
  verdicts: [string, boolean, boolean[] | null][] | null;
}

/**
 * Reserves for wishes of one tenant, as if they came one after the other, in one statement: rows are locked, and
 * `spent + reserved + amount <= cap` is asked for each wish with what those before it got. Null for the wishes of a key
 * that lacks a window: nothing is reserved for them.
 */
export async function reserveAll(
  db: Database,
  tenantId: string,
  wishes: readonly ReservationWish[],
): Promise<(Verdict | null)[]> {
  const sql = db.control;
  const keys = wishes.map(({ keyId }) => toUuid(keyId as Id));
  const counts = new Map<string, number>();
  const claims = new Map<string, { k: string; w: string; p: string; a: number }>();
  const calls = wishes.map((wish, index) => {
    const k = keys[index] ?? "";
    const n = (counts.get(k) ?? 0) + 1;
    counts.set(k, n);
    for (const { id: w, path } of wish.windows) {
      const claim = claims.get(`${k} ${w}`) ?? { k, w, p: `{${path.join(",")}}`, a: 0 };
      claim.a += wish.amountMicros;
      claims.set(`${k} ${w}`, claim);
    }
    const { usageId, requestId: r, amountMicros: a, leaseMs: l, windows } = wish;
    return { k, n, u: toUuid(usageId as Id), r, a, l, w: windows.map(({ id }) => id).sort() };
  });
  const fold = counts.size === wishes.length ? noFold(sql) : foldOf(sql);
  const rows = await db.within(sql<AllRow[]>`
    with recursive claims as materialized (
      select k, w, p::text[] as p, a
      from jsonb_to_recordset(${sql.json([...claims.values()])}::jsonb)
        as claim(k uuid, w text, p text, a bigint)),
    calls as materialized (
      select k, n, u, r, a, l, w
      from jsonb_to_recordset(${sql.json(calls)}::jsonb)
        as call(k uuid, n int, u uuid, r text, a bigint, l float8, w jsonb)),
    locked as materialized (
      select b.key_id as k, b.window_id as w, b.spent_micros as spent, b.reserved_micros as reserved, c.a,
        (k.policy #>> (c.p || 'hardMicros'::text))::bigint as hard,
        (k.policy #>> (c.p || 'softMicros'::text))::bigint as soft
      from claims c
      join hub.budget_windows b on b.tenant_id = ${tenantId} and b.key_id = c.k and b.window_id = c.w
      join hub.api_keys k on k.tenant_id = b.tenant_id and k.key_id = b.key_id
      order by b.key_id, b.window_id
      for update of b),
    keys as materialized (
      select l.k, bool_and(coalesce(spent + reserved + a <= hard, true)) as all_fit,
        jsonb_object_agg(w, hard - spent - reserved) as room
      from locked l
      group by l.k
      having count(*) = (select count(*) from claims c where c.k = l.k)),
    ${fold.decided}
    granted as materialized (
      select c.k, c.u, c.r, c.a, c.l, c.w
      from calls c join keys k on k.k = c.k ${fold.join}
      where ${fold.fits}),
    sums as (
      select l.k, l.w, l.a from locked l join keys k on k.k = l.k where k.all_fit ${fold.sums}),
    held as (
      update hub.budget_windows b set reserved_micros = b.reserved_micros + s.a
      from sums s
      where b.tenant_id = ${tenantId} and b.key_id = s.k and b.window_id = s.w
      returning 1),
    kept as (
      insert into hub.reservations (tenant_id, reservation_id, key_id, request_id, amount_micros, lease_until, windows)
      select ${tenantId}, u, k, r, a, now() + l * interval '1 millisecond', w from granted
      returning 1)
    select
      (select jsonb_agg(jsonb_build_array(k, w, spent, reserved, hard, soft)) from locked) as windows,
      (select jsonb_agg(jsonb_build_array(k, all_fit, ${fold.each}))
        from keys) as verdicts`);
  const states = new Map(
    (rows[0]?.windows ?? []).map((row) => [`${row[0]} ${row[1]}`, toState(row)]),
  );
  const verdicts = new Map(rows[0]?.verdicts?.map(([k, all, each]) => [k, each ?? all]));
  return calls.map(({ k, n, a, w }) => {
    const verdict = verdicts.get(k);
    if (verdict === undefined) return null;
    const fits = typeof verdict === "boolean" ? verdict : verdict[n - 1] === true;
    const own = w.flatMap((id) => states.get(`${k} ${id}`) ?? []);
    const windows = own.map((state) => ({ ...state }));
    if (fits) { for (const state of own) state.reservedMicros += a; }
    return { fits, windows };
  });
}

/** For keys whose wishes do not all fit: decides one after the other. */
function foldOf(sql: Database["control"]) {
  return {
    decided: sql`
    queues as materialized (
      select k.k, k.room, array_agg(c.a order by c.n) as a, jsonb_agg(c.w order by c.n) as w
      from keys k join calls c on c.k = k.k
      where not k.all_fit
      group by k.k, k.room),
    decided as (
      select k, 0 as n, false as fits, room from queues
      union all
      select d.k, d.n + 1, v.fits, case when v.fits then d.room || v.less else d.room end
      from decided d
      join queues q on q.k = d.k and d.n < cardinality(q.a)
      cross join lateral (
        select bool_and(coalesce((d.room ->> w.id)::bigint >= q.a[d.n + 1], true)) as fits,
          jsonb_object_agg(w.id, (d.room ->> w.id)::bigint - q.a[d.n + 1]) as less
        from jsonb_array_elements_text(q.w -> d.n) as w(id)) as v),`,
    join: sql`left join decided d on d.k = c.k and d.n = c.n`,
    fits: sql`coalesce(d.fits, k.all_fit)`,
    sums: sql`
      union all
      select g.k, w.id, sum(g.a)::bigint
      from granted g join queues q on q.k = g.k, jsonb_array_elements_text(g.w) as w(id)
      group by 1, 2`,
    each:
      sql`(select jsonb_agg(d.fits order by d.n) from decided d where d.k = keys.k and d.n > 0)`,
  };
}

/** Each key has one wish: half of the work. */
function noFold(sql: Database["control"]) {
  return { decided: sql``, join: sql``, fits: sql`k.all_fit`, sums: sql``, each: sql`null::jsonb` };
}

/** Makes windows that are not there, with what usage rows say was spent in them. */
export async function openWindows(db: Database, wish: ReservationWish): Promise<void> {
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
    where not exists (
      select 1 from hub.budget_windows b
      where b.tenant_id = ${wish.tenantId} and b.key_id = ${keyId} and b.window_id = w.id)
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

function toState(row: NonNullable<AllRow["windows"]>[number]): WindowState {
  const [, id, spentMicros, reservedMicros, hardMicros, softMicros] = row;
  return { id, spentMicros, reservedMicros, hardMicros, softMicros };
}
