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

/** What a minute holds. */
export interface RateState {
  requests: number;
  tokens: number;
}

interface Row {
  taken: boolean;
  requests: number;
  tokens: number;
}

/** Counts a request and its tokens if the minute has room for both; one statement, so that replicas count together. */
export async function takeRate(
  db: Database,
  wish: RateWish,
): Promise<RateState & { taken: boolean }> {
  const sql = db.control;
  const { tenantId, windowId, tokens, maxRequests, maxTokens } = wish;
  const keyId = toUuid(wish.keyId as Id);
  const rows = await db.within(sql<Row[]>`
    with taken as (
      insert into hub.rate_windows as r (tenant_id, key_id, window_id, requests, tokens)
      select ${tenantId}::uuid, ${keyId}::uuid, ${windowId}, 1, ${tokens}::bigint
      where ${maxRequests ?? 1}::bigint >= 1 and ${maxTokens ?? tokens}::bigint >= ${tokens}::bigint
      on conflict (tenant_id, key_id, window_id) do update
        set requests = r.requests + 1, tokens = r.tokens + excluded.tokens
        where (${maxRequests}::bigint is null or r.requests + 1 <= ${maxRequests}::bigint)
          and (${maxTokens}::bigint is null or r.tokens + excluded.tokens <= ${maxTokens}::bigint)
      returning requests, tokens)
    select true as taken, requests::float8 as requests, tokens::float8 as tokens from taken
    union all
    select false, r.requests::float8, r.tokens::float8 from hub.rate_windows r
    where r.tenant_id = ${tenantId} and r.key_id = ${keyId} and r.window_id = ${windowId}`);
  const state = rows.find(({ taken }) => taken) ?? rows[0];
  return state ?? { taken: false, requests: 0, tokens: 0 };
}

/** Corrects the tokens of a minute by what a call turned out to use. */
export async function correctRate(
  db: Database,
  { tenantId, keyId, windowId, tokens }: RateKey & { tokens: number },
): Promise<void> {
  await db.within(db.control`
    update hub.rate_windows set tokens = greatest(0, tokens + ${Math.round(tokens)}::bigint)
    where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)} and window_id = ${windowId}`);
}
