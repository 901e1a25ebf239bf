import { type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** A key's minute. */
export interface RateKey {
  tenantId: string;
  keyId: string;
  /** The minute, `2026-11-21T10:07`. */
  windowId: string;
}

/** A wish for a place in a minute; null is no limit. */
export interface RateWish extends RateKey {
  tokens: number;
  maxRequests: number | null;
  maxTokens: number | null;
}

/** What the tokens of a minute change by. */
export interface RateCorrection extends RateKey {
  tokens: number;
}

/** What a minute holds. */
export interface RateState {
  requests: number;
  tokens: number;
}

/** What became of a wish, and what its minute holds then. */
export interface RateVerdict extends RateState {
  taken: boolean;
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
  if (verdict === null) throw new Error("The minute of a rate vanished");
  return verdict;
}

/**
 * Counts wishes of one tenant in one statement, so that replicas count together. Null for the wishes of a minute that
 * has no room for all of them, and for others of it: nothing is counted for these, and `fitRates` knows who fits.
 */
export async function takeRates(
  db: Database,
  tenantId: string,
  wishes: readonly RateWish[],
): Promise<(RateVerdict | null)[]> {
  const sql = db.control;
  const calls = callsOf(wishes);
  const rows = await db.within(sql<{ k: string; w: string; requests: number; tokens: number }[]>`
    with calls as (
      select k, w, count(*) as n, sum(t)::bigint as t, min(mr) as mr, min(mt) as mt
      from jsonb_to_recordset(${sql.json(calls)}::jsonb)
        as call(k uuid, w text, t bigint, mr bigint, mt bigint)
      group by k, w),
    minutes as (
      select k, w, n, t, mr, mt, coalesce(n <= mr, true) and coalesce(t <= mt, true) as fits from calls),
    taken as (
      insert into hub.rate_windows as r (tenant_id, key_id, window_id, requests, tokens)
      select ${tenantId}::uuid, k, w, case when fits then n else 0 end, case when fits then t else 0 end
      from minutes
      order by k, w
      on conflict (tenant_id, key_id, window_id) do update
        set requests = r.requests + excluded.requests, tokens = r.tokens + excluded.tokens
        where excluded.requests > 0 and exists (
          select 1 from minutes m where m.k = r.key_id and m.w = r.window_id
            and coalesce(r.requests + m.n <= m.mr, true) and coalesce(r.tokens + m.t <= m.mt, true))
      returning key_id as k, window_id as w, requests, tokens)
    select k, w, requests::float8 as requests, tokens::float8 as tokens from taken where requests > 0`);
  const after = new Map(rows.map(({ k, w, ...state }) => [`${k} ${w}`, state]));
  // What each found was there before those behind it came.
  return calls.toReversed().map(({ k, w, t }): RateVerdict | null => {
    const state = after.get(`${k} ${w}`);
    if (state === undefined) return null;
    const verdict = { taken: true, ...state };
    state.requests--;
    state.tokens -= t;
    return verdict;
  }).reverse();
}

/**
 * Counts those of the wishes of one tenant that fit, as if they came one after the other, in one statement. Their
 * minutes stand already; null for those of a minute that does not.
 */
export async function fitRates(
  db: Database,
  tenantId: string,
  wishes: readonly RateWish[],
): Promise<(RateVerdict | null)[]> {
  const sql = db.control;
  const calls = callsOf(wishes);
  const rows = await db.within(
    sql<(RateVerdict & { k: string; w: string; n: number })[]>`
    with recursive calls as materialized (
      select k, w, n, t, mr, mt
      from jsonb_to_recordset(${sql.json(calls)}::jsonb)
        as call(k uuid, w text, n int, t bigint, mr bigint, mt bigint)),
    locked as materialized (
      select r.key_id as k, r.window_id as w, r.requests, r.tokens
      from (select distinct k, w from calls) c
      join hub.rate_windows r on r.tenant_id = ${tenantId} and r.key_id = c.k and r.window_id = c.w
      order by r.key_id, r.window_id
      for update of r),
    queues as materialized (
      select l.k, l.w, l.requests, l.tokens, array_agg(c.t order by c.n) as t, array_agg(c.mr order by c.n) as mr,
        array_agg(c.mt order by c.n) as mt
      from locked l join calls c on c.k = l.k and c.w = l.w
      group by l.k, l.w, l.requests, l.tokens),
    decided as (
      select k, w, 0 as n, false as taken, requests, tokens from queues
      union all
      select d.k, d.w, d.n + 1, v.fits, d.requests + v.fits::int,
        d.tokens + case when v.fits then q.t[d.n + 1] else 0 end
      from decided d
      join queues q on q.k = d.k and q.w = d.w and d.n < cardinality(q.t)
      cross join lateral (
        select coalesce(d.requests + 1 <= q.mr[d.n + 1], true)
          and coalesce(d.tokens + q.t[d.n + 1] <= q.mt[d.n + 1], true) as fits) as v),
    counted as (
      update hub.rate_windows r set requests = l.requests, tokens = l.tokens
      from decided l join queues q on q.k = l.k and q.w = l.w and l.n = cardinality(q.t) and l.requests > q.requests
      where r.tenant_id = ${tenantId} and r.key_id = l.k and r.window_id = l.w
      returning 1)
    select k, w, n, taken, requests::float8 as requests, tokens::float8 as tokens from decided where n > 0`,
  );
  const verdicts = new Map(
    rows.map(({ k, w, n, ...verdict }): [string, RateVerdict] => [`${k} ${w} ${n}`, verdict]),
  );
  return calls.map(({ k, w, n }) => verdicts.get(`${k} ${w} ${n}`) ?? null);
}

/** Corrects the tokens of minutes of one tenant by what calls turned out to use. */
export async function correctRates(
  db: Database,
  tenantId: string,
  changes: readonly RateCorrection[],
): Promise<void> {
  const sql = db.control;
  const calls = changes.map(({ keyId, windowId, tokens }) => ({
    k: toUuid(keyId as Id),
    w: windowId,
    t: Math.round(tokens),
  }));
  await db.within(sql`
    with sums as (
      select k, w, sum(t)::bigint as t
      from jsonb_to_recordset(${sql.json(calls)}::jsonb) as call(k uuid, w text, t bigint)
      group by k, w),
    locked as materialized (
      select s.k, s.w, s.t from sums s
      join hub.rate_windows r on r.tenant_id = ${tenantId} and r.key_id = s.k and r.window_id = s.w
      order by r.key_id, r.window_id
      for update of r)
    update hub.rate_windows r set tokens = greatest(0, r.tokens + l.t)
    from locked l
    where r.tenant_id = ${tenantId} and r.key_id = l.k and r.window_id = l.w`);
}

/** Corrects the tokens of one minute. */
export async function correctRate(
  db: Database,
  change: RateCorrection,
): Promise<void> {
  await correctRates(db, change.tenantId, [change]);
}

/** Wishes as rows; those of one minute are numbered in their order. */
function callsOf(wishes: readonly RateWish[]) {
  const counts = new Map<string, number>();
  return wishes.map(({ keyId, windowId: w, tokens: t, maxRequests: mr, maxTokens: mt }) => {
    const k = toUuid(keyId as Id);
    const n = (counts.get(`${k} ${w}`) ?? 0) + 1;
    counts.set(`${k} ${w}`, n);
    return { k, w, n, t, mr, mt };
  });
}
