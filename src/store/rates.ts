import { type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** The last minute is counted in slices, and the oldest one whole: a key never gets more than its limit in any minute. */
export const SLICE_MS = 3000;
/** Slices of a minute. */
const SLICES = 20;

/** The slice of a moment. */
export const sliceOf = (nowMs: number): number => Math.floor(nowMs / SLICE_MS);

/** The oldest slice of the minute that ends in this one. */
export const startOfMinute = (slice: number): number => slice - SLICES;

/** When the last minute no longer has a slice in it. */
export const endOfSlice = (slice: number): number => (slice + SLICES + 1) * SLICE_MS;

/** Where a call is counted. */
export interface RateKey {
  tenantId: string;
  keyId: string;
  slice: number;
}

/** A wish for a place in the last minute; null is no limit. */
export interface RateWish extends RateKey {
  tokens: number;
  maxRequests: number | null;
  maxTokens: number | null;
}

/** What the tokens of a slice change by. */
export interface RateCorrection extends RateKey {
  tokens: number;
}

/** What the last minute holds. */
export interface RateState {
  requests: number;
  tokens: number;
}

/** Requests and tokens by slice. */
export type RateSlices = Readonly<Record<string, readonly [requests: number, tokens: number]>>;

/** What became of a wish, and what its minute holds then. */
export interface RateVerdict extends RateState {
  taken: boolean;
  /** Where it is counted. */
  slice: number;
  /** What it found, of a wish that has no room: when each slice ends, there is more. */
  slices: RateSlices | null;
}

/** How a wish gets its verdict: from `takeRates`, and after a null from `fitRates`. */
export interface RateDeciding {
  take(wish: RateWish): Promise<RateVerdict | null>;
  fit(wish: RateWish): Promise<RateVerdict | null>;
}

/** Counts a request and its tokens if the minute has room for both. */
export async function takeRate(
  db: Database,
  wish: RateWish,
  { take, fit }: RateDeciding = {
    take: async (alone) => (await takeRates(db, alone.tenantId, [alone]))[0] ?? null,
    fit: async (alone) => (await fitRates(db, alone.tenantId, [alone]))[0] ?? null,
  },
): Promise<RateVerdict> {
  const verdict = await take(wish) ?? await fit(wish);
  if (verdict === null) throw new Error("The row of a rate is gone");
  return verdict;
}

/**
 * Counts wishes of one tenant in one statement, so that replicas count together. Null for the wishes of a key that has
 * no room for all of them, and for others of it: nothing is counted for these, and `fitRates` knows who fits.
 */
export async function takeRates(
  db: Database,
  tenantId: string,
  wishes: readonly RateWish[],
): Promise<(RateVerdict | null)[]> {
  const sql = db.control;
  const calls = callsOf(wishes);
  const rows = await db.within(
    sql<{ k: string; slice: number; requests: number; tokens: number }[]>`
    with calls as (
      select k, max(s) as s, count(*) as n, sum(t)::bigint as t, min(mr) as mr, min(mt) as mt
      from jsonb_to_recordset(${sql.json(calls)}::jsonb)
        as call(k uuid, s bigint, t bigint, mr bigint, mt bigint)
      group by k),
    keys as (
      select k, s, s - ${SLICES}::bigint as since, n, t, mr, mt,
        coalesce(n <= mr, true) and coalesce(t <= mt, true) as fits
      from calls),
    taken as (
      insert into hub.rate_slices as r (tenant_id, key_id, slices)
      select ${tenantId}::uuid, k,
        case when fits then hub.add_to_slice('{}'::jsonb, since, s, n, t) else '{}'::jsonb end
      from keys
      order by k
      on conflict (tenant_id, key_id) do update
        set slices = (select hub.add_to_slice(r.slices, m.since, m.s, m.n, m.t) from keys m where m.k = r.key_id),
          changed_at = excluded.changed_at
        where excluded.slices <> '{}'::jsonb and exists (
          select 1 from keys m where m.k = r.key_id
            and coalesce(hub.sum_of_slices(r.slices, m.since, 0) + m.n <= m.mr, true)
            and coalesce(hub.sum_of_slices(r.slices, m.since, 1) + m.t <= m.mt, true))
      returning key_id, slices)
    select k, s::float8 as slice, hub.sum_of_slices(slices, since, 0)::float8 as requests,
      hub.sum_of_slices(slices, since, 1)::float8 as tokens
    from taken join keys on k = key_id where slices <> '{}'::jsonb`,
  );
  const after = new Map(rows.map(({ k, ...state }) => [k, state]));
  // What each found was there before those behind it came.
  return calls.toReversed().map(({ k, t }): RateVerdict | null => {
    const state = after.get(k);
    if (state === undefined) return null;
    const verdict = { taken: true, ...state, slices: null };
    state.requests--;
    state.tokens -= t;
    return verdict;
  }).reverse();
}

/**
 * Counts those of the wishes of one tenant that fit, as if they came one after the other, in one statement. The rows of
 * their keys stand already; null for those of a key that has none.
 */
export async function fitRates(
  db: Database,
  tenantId: string,
  wishes: readonly RateWish[],
): Promise<(RateVerdict | null)[]> {
  const sql = db.control;
  const calls = callsOf(wishes);
  const rows = await db.within(
    sql<(RateVerdict & { k: string; n: number })[]>`
    with recursive calls as materialized (
      select k, s, n, t, mr, mt
      from jsonb_to_recordset(${sql.json(calls)}::jsonb)
        as call(k uuid, s bigint, n int, t bigint, mr bigint, mt bigint)),
    locked as materialized (
      select r.key_id as k, c.s, c.s - ${SLICES}::bigint as since, r.slices
      from (select k, max(s) as s from calls group by k) c
      join hub.rate_slices r on r.tenant_id = ${tenantId} and r.key_id = c.k
      order by r.key_id
      for update of r),
    queues as materialized (
      select l.k, l.s, l.since, l.slices, hub.sum_of_slices(l.slices, l.since, 0) as requests,
        hub.sum_of_slices(l.slices, l.since, 1) as tokens,
        (select array_agg(t order by n) from calls c where c.k = l.k) as t,
        (select array_agg(mr order by n) from calls c where c.k = l.k) as mr,
        (select array_agg(mt order by n) from calls c where c.k = l.k) as mt
      from locked l),
    decided as (
      select k, 0 as n, false as taken, requests, tokens from queues
      union all
      select d.k, d.n + 1, v.fits, d.requests + v.fits::int,
        d.tokens + case when v.fits then q.t[d.n + 1] else 0 end
      from decided d
      join queues q on q.k = d.k and d.n < cardinality(q.t)
      cross join lateral (
        select coalesce(d.requests + 1 <= q.mr[d.n + 1], true)
          and coalesce(d.tokens + q.t[d.n + 1] <= q.mt[d.n + 1], true) as fits) as v),
    counted as (
      update hub.rate_slices r set changed_at = now(),
        slices = hub.add_to_slice(r.slices, q.since, q.s, l.requests - q.requests, l.tokens - q.tokens)
      from decided l join queues q on q.k = l.k and l.n = cardinality(q.t) and l.requests > q.requests
      where r.tenant_id = ${tenantId} and r.key_id = l.k
      returning 1)
    select d.k, d.n, d.taken, d.requests::float8 as requests, d.tokens::float8 as tokens, q.s::float8 as slice,
      case when d.taken then null else q.slices end as slices
    from decided d join queues q on q.k = d.k where d.n > 0`,
  );
  const verdicts = new Map(
    rows.map(({ k, n, ...verdict }): [string, RateVerdict] => [`${k} ${n}`, verdict]),
  );
  return calls.map(({ k, n }) => verdicts.get(`${k} ${n}`) ?? null);
}

/** Corrects the tokens of slices of one tenant by what calls turned out to use; slices that are over are left out. */
export async function correctRates(
  db: Database,
  tenantId: string,
  changes: readonly RateCorrection[],
): Promise<void> {
  const sql = db.control;
  const calls = changes.map(({ keyId, slice, tokens }) => ({
    k: toUuid(keyId as Id),
    s: slice,
    t: Math.round(tokens),
  }));
  await db.within(sql`
    with sums as (
      select k, jsonb_object_agg(s, t) as changes from (
        select k, s, sum(t)::bigint as t
        from jsonb_to_recordset(${sql.json(calls)}::jsonb) as call(k uuid, s bigint, t bigint)
        group by k, s) as summed
      group by k),
    locked as materialized (
      select s.k, s.changes from sums s
      join hub.rate_slices r on r.tenant_id = ${tenantId} and r.key_id = s.k
      order by r.key_id
      for update of r)
    update hub.rate_slices r set slices = hub.correct_slices(r.slices, l.changes)
    from locked l
    where r.tenant_id = ${tenantId} and r.key_id = l.k`);
}

/** Corrects the tokens of one slice. */
export async function correctRate(
  db: Database,
  change: RateCorrection,
): Promise<void> {
  await correctRates(db, change.tenantId, [change]);
}

/** Wishes as rows; those of one key are numbered in their order. */
function callsOf(wishes: readonly RateWish[]) {
  const counts = new Map<string, number>();
  return wishes.map(({ keyId, slice: s, tokens: t, maxRequests: mr, maxTokens: mt }) => {
    const k = toUuid(keyId as Id);
    const n = (counts.get(k) ?? 0) + 1;
    counts.set(k, n);
    return { k, s, n, t, mr, mt };
  });
}
