import { type Id, toUuid } from "../core/id.ts";
import type { Json } from "../core/json.ts";
import type { Database } from "./database.ts";
import { pruneInBatches } from "./prune_batches.ts";

/** Which answer: `hash` is the SHA-256 of all that it depends on. */
export interface CacheKey {
  tenantId: string;
  hash: Uint8Array;
}

/** What is known of an answer beside its bytes. */
export interface CachedHead {
  /** `provider/model` that gave it. */
  target: string;
  provider: string;
  model: string;
  /** Fields that the hub said of it. */
  headers: Readonly<Record<string, string>>;
}

/** An answer as it was sent. */
export interface CachedAnswer {
  head: CachedHead;
  bytes: Uint8Array;
}

/** An answer to be kept. */
export interface NewCachedAnswer extends CacheKey, CachedAnswer {
  keyId: string;
  /** How long it is kept. */
  seconds: number;
  /** How long ago it was whole. */
  agedMs: number;
}

/** What the cache holds for a tenant. */
export interface CacheOverview {
  entries: number;
  bytes: number;
  /** Age of the oldest, in milliseconds; null when there is none. */
  oldestMs: number | null;
  /** Requests answered from it, and those that asked a provider, in the last 24 hours. */
  hits: number;
  calls: number;
}

/** What a row takes beside its bytes. */
const ROW_BYTES = 400;

/** The answer under a key that is no older than this many seconds, with its age in seconds. One statement. */
export async function findCached(
  db: Database,
  { tenantId, hash, seconds }: CacheKey & { seconds: number },
): Promise<CachedAnswer & { age: number } | null> {
  const rows = await db.within(
    db.read<{ head: CachedHead; body: Uint8Array; age: number }[]>`
    select head, body, greatest(0, floor(extract(epoch from now() - created_at)))::int as age
    from hub.cached_answers
    where tenant_id = ${tenantId} and cache_key = ${hash} and expires_at > now()
      and created_at > now() - ${seconds}::int * interval '1 second'`,
  );
  const row = rows[0];
  if (row === undefined) return null;
  return { head: row.head, bytes: new Uint8Array(row.body), age: row.age };
}

/** Keeps an answer. One that is newer stays. */
export async function keepCached(
  db: Database,
  { tenantId, hash, keyId, head, bytes, seconds, agedMs }: NewCachedAnswer,
): Promise<void> {
  const sql = db.control;
  await db.within(sql`
    insert into hub.cached_answers as c (tenant_id, cache_key, key_id, head, body, size, created_at, expires_at)
    values (${tenantId}, ${hash}, ${toUuid(keyId as Id)}, ${
    sql.json(head as unknown as Json)
  }, ${bytes}, ${ROW_BYTES + bytes.length}, now() - ${agedMs}::int * interval '1 millisecond',
      now() - ${agedMs}::int * interval '1 millisecond' + ${seconds}::int * interval '1 second')
    on conflict (tenant_id, cache_key) do update set key_id = excluded.key_id, head = excluded.head,
      body = excluded.body, size = excluded.size, created_at = excluded.created_at,
      expires_at = excluded.expires_at
    where c.created_at <= excluded.created_at`);
}

/** Answers that one statement drops. */
const PRUNE_BATCH = 100;

/** Drops what has expired, then the oldest until the rest fits. Gives how many there were. */
export async function pruneCached(
  db: Database,
  { maxBytes, batch = PRUNE_BATCH }: { maxBytes: number; batch?: number },
): Promise<number> {
  const expired = await pruneInBatches(batch, () =>
    db.within(db.control`
      delete from hub.cached_answers
      where (tenant_id, cache_key) in (
        select tenant_id, cache_key from hub.cached_answers
        where expires_at <= now() order by expires_at limit ${batch})
      returning 1`));
  const surplus = await pruneInBatches(batch, () =>
    db.within(db.control`
      delete from hub.cached_answers
      where (tenant_id, cache_key) in (
        select tenant_id, cache_key from (
          select tenant_id, cache_key, size,
            sum(size) over (order by created_at, tenant_id, cache_key) as dropped
          from (select tenant_id, cache_key, size, created_at from hub.cached_answers
            order by created_at, tenant_id, cache_key limit ${batch}) oldest
        ) o
        where o.dropped - o.size < (select sum(size) from hub.cached_answers) - ${maxBytes}::bigint)
      returning 1`));
  return expired + surplus;
}

/** Drops a tenant's answers, or those that requests of one key had brought in. Gives how many there were. */
export function clearCached(
  db: Database,
  { tenantId, keyId, batch = PRUNE_BATCH }: {
    tenantId: string;
    keyId: string | null;
    batch?: number;
  },
): Promise<number> {
  const key = keyId === null ? null : toUuid(keyId as Id);
  return pruneInBatches(batch, () =>
    db.within(db.control`
      delete from hub.cached_answers
      where tenant_id = ${tenantId} and cache_key in (
        select cache_key from hub.cached_answers
        where tenant_id = ${tenantId} and (${key}::uuid is null or key_id = ${key}::uuid)
        limit ${batch})
      returning 1`));
}

/** What the cache holds for a tenant, and what it was good for. */
export async function readCacheOverview(db: Database, tenantId: string): Promise<CacheOverview> {
  const rows = await db.within(
    db.read<
      { entries: number; bytes: number; oldest_ms: number | null; hits: number; calls: number }[]
    >`
    select c.entries, c.bytes, c.oldest_ms, u.hits, u.calls
    from (select count(*)::float8 as entries, coalesce(sum(size), 0)::float8 as bytes,
        extract(epoch from now() - min(created_at))::float8 * 1000 as oldest_ms
      from hub.cached_answers where tenant_id = ${tenantId}) c,
      (select count(*) filter (where from_cache)::float8 as hits,
        count(*) filter (where not from_cache)::float8 as calls
      from hub.usage where tenant_id = ${tenantId} and started_at > now() - interval '24 hours'
        and kind <> 'run') u`,
  );
  const row = rows[0];
  if (row === undefined) throw new Error("A count gave no row");
  const { entries, bytes, hits, calls, oldest_ms: oldestMs } = row;
  return { entries, bytes, hits, calls, oldestMs };
}
