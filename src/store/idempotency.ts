import type { Json, JsonObject } from "../core/json.ts";
import type { Database } from "./database.ts";
import { pruneInBatches } from "./prune_batches.ts";

/** Which kept answer. `key` has the scope in it: whose key, and of which endpoint. */
export interface AnswerKey {
  tenantId: string;
  key: string;
}

/** One try to get the answer. A later claim of the same key makes all that is written under it void. */
export interface AnswerClaim extends AnswerKey {
  /** A `uuid`. */
  claimId: string;
}

/** What a claim came to. `held`: the answer is there, or somebody is getting it under that claim. */
export type Claimed = { kind: "claimed" } | { kind: "held"; claimId: string } | {
  kind: "mismatch";
};

/** How far an answer is. */
export type AnswerState = "running" | "done" | "too_large";

/** An answer's first part: a status, and all else that is known before its bytes. */
export interface StoredHead {
  status: number;
  response: JsonObject;
}

/** What a look at a kept answer found. */
export interface AnswerLook {
  state: AnswerState;
  /** Nobody has renewed it in time: whoever was getting it is gone. */
  lapsed: boolean;
  head: StoredHead | null;
  /** In order, from the one that was asked for. */
  pieces: Uint8Array[];
  /** False when the next look may have more of what is stored already. */
  complete: boolean;
}

/** How long a key names its answer. */
export const KEPT_HOURS = 24;
/** How long one look of a follower keeps the answer alive for it. */
const FOLLOWED_MS = 5000;
const PIECES_PER_LOOK = 200;
/** A statement that waited for another's row does not see it: the next one does. */
const MAX_ATTEMPTS = 3;

/**
 * Claims a key that is new, expired, or was claimed for the same body by somebody whose lease has run out. Exactly one of
 * those who claim at the same moment gets it.
 */
export async function claimAnswer(
  db: Database,
  { tenantId, key, claimId, bodyHash, leaseMs }: AnswerClaim & {
    bodyHash: Uint8Array;
    leaseMs: number;
  },
): Promise<Claimed> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const rows = await db.within(
      db.control<{ claimed: boolean; holder: string | null; same: boolean | null }[]>`
      with claimed as (
        insert into hub.idempotency as i (tenant_id, idem_key, body_hash, claim_id, state, lease_until, expires_at)
        values (${tenantId}, ${key}, ${bodyHash}, ${claimId}, 'running',
          now() + ${leaseMs}::int * interval '1 millisecond', now() + ${KEPT_HOURS}::int * interval '1 hour')
        on conflict (tenant_id, idem_key) do update set body_hash = excluded.body_hash,
          claim_id = excluded.claim_id, state = excluded.state, lease_until = excluded.lease_until,
          followed_until = null, status = null, response = null, created_at = excluded.created_at,
          expires_at = excluded.expires_at
        where i.expires_at <= now()
          or (i.state = 'running' and i.lease_until < now() and i.body_hash = excluded.body_hash)
        returning i.tenant_id, i.idem_key
      ), dropped as (
        delete from hub.idempotency_pieces p using claimed c
        where p.tenant_id = c.tenant_id and p.idem_key = c.idem_key
      )
      select exists (select 1 from claimed) as claimed, h.claim_id as holder, h.body_hash = ${bodyHash} as same
      from (select 1) one
      left join hub.idempotency h on h.tenant_id = ${tenantId} and h.idem_key = ${key}`,
    );
    const row = rows[0];
    if (row?.claimed === true) return { kind: "claimed" };
    if (row?.same === false) return { kind: "mismatch" };
    if (row !== undefined && row.holder !== null) return { kind: "held", claimId: row.holder };
  }
  throw new Error("A claimed key was neither ours nor anybody's");
}

/** What is to be written of an answer. The same piece again changes nothing. */
export interface AnswerPart {
  state: "running" | "done";
  head: StoredHead | null;
  piece: { index: number; bytes: Uint8Array } | null;
}

/**
 * Writes what came of an answer and renews its lease. Null when the claim is not the key's any more: nothing was
 * written. `followed`: somebody waits for it on another replica.
 */
export async function saveAnswer(
  db: Database,
  { tenantId, key, claimId }: AnswerClaim,
  { state, head, piece, leaseMs }: AnswerPart & { leaseMs: number },
): Promise<{ followed: boolean } | null> {
  const sql = db.control;
  const rows = await db.within(sql<{ followed: boolean }[]>`
    with owned as (
      update hub.idempotency set state = ${state}, lease_until = now() + ${leaseMs}::int * interval '1 millisecond',
        status = coalesce(${head?.status ?? null}::int, status),
        response = coalesce(${
    head === null ? null : sql.json(head.response as Json)
  }::jsonb, response)
      where tenant_id = ${tenantId} and idem_key = ${key} and claim_id = ${claimId}
        and state in ('running', ${state})
      returning tenant_id, idem_key, claim_id, coalesce(followed_until > now(), false) as followed
    ), kept as (
      insert into hub.idempotency_pieces (tenant_id, idem_key, claim_id, piece, bytes)
      select tenant_id, idem_key, claim_id, ${piece?.index ?? null}::int, ${
    piece?.bytes ?? null
  }::bytea
      from owned where ${piece !== null}::boolean
      on conflict (tenant_id, idem_key, claim_id, piece) do nothing
    )
    select followed from owned`);
  return rows[0] ?? null;
}

/** Drops what was kept of an answer that is too large. Its key stays taken. */
export async function refuseAnswer(db: Database, claim: AnswerClaim): Promise<void> {
  await db.within(db.control`
    with refused as (
      update hub.idempotency set state = 'too_large'
      where tenant_id = ${claim.tenantId} and idem_key = ${claim.key} and claim_id = ${claim.claimId}
      returning tenant_id, idem_key
    )
    delete from hub.idempotency_pieces p using refused r
    where p.tenant_id = r.tenant_id and p.idem_key = r.idem_key`);
}

/**
 * Frees the key, so that the next request under it asks the provider anew. With `unlessFollowed` not while somebody waits
 * for the answer on another replica: then true.
 */
export async function releaseAnswer(
  db: Database,
  { tenantId, key, claimId, unlessFollowed }: AnswerClaim & { unlessFollowed: boolean },
): Promise<boolean> {
  const rows = await db.within(db.control<{ followed: boolean }[]>`
    with gone as (
      delete from hub.idempotency
      where tenant_id = ${tenantId} and idem_key = ${key} and claim_id = ${claimId}
        and (not ${unlessFollowed}::boolean or followed_until is null or followed_until < now())
      returning 1
    )
    select not exists (select 1 from gone) as followed from hub.idempotency
    where tenant_id = ${tenantId} and idem_key = ${key} and claim_id = ${claimId}`);
  return rows[0]?.followed ?? false;
}

/** Reads an answer from a piece on, and says that it is waited for. Null when the claim is not the key's any more. */
export async function lookAtAnswer(
  db: Database,
  { tenantId, key, claimId, from }: AnswerClaim & { from: number },
): Promise<AnswerLook | null> {
  const rows = await db.within(
    db.control<
      {
        state: AnswerState;
        lapsed: boolean;
        status: number | null;
        response: JsonObject | null;
        bytes: Uint8Array | null;
      }[]
    >`
    with marked as (
      update hub.idempotency set followed_until = now() + ${FOLLOWED_MS}::int * interval '1 millisecond'
      where tenant_id = ${tenantId} and idem_key = ${key} and claim_id = ${claimId} and state = 'running'
        and (followed_until is null
          or followed_until < now() + ${FOLLOWED_MS / 2}::int * interval '1 millisecond')
    )
    select i.state, i.lease_until < now() as lapsed, i.status, i.response, p.bytes
    from hub.idempotency i
    left join hub.idempotency_pieces p on p.tenant_id = i.tenant_id and p.idem_key = i.idem_key
      and p.claim_id = i.claim_id and p.piece >= ${from}
    where i.tenant_id = ${tenantId} and i.idem_key = ${key} and i.claim_id = ${claimId}
    order by p.piece limit ${PIECES_PER_LOOK}`,
  );
  const row = rows[0];
  if (row === undefined) return null;
  return {
    state: row.state,
    lapsed: row.state === "running" && row.lapsed,
    head: row.status === null || row.response === null
      ? null
      : { status: row.status, response: row.response },
    pieces: rows.flatMap(({ bytes }) => bytes === null ? [] : [new Uint8Array(bytes)]),
    complete: rows.length < PIECES_PER_LOOK,
  };
}

/** Keys that one statement drops with their answers. */
const PRUNE_BATCH = 20;

/** Drops expired keys with their answers. Gives how many there were. */
export function pruneAnswers(
  db: Database,
  { batch = PRUNE_BATCH }: { batch?: number } = {},
): Promise<number> {
  return pruneInBatches(batch, () =>
    db.within(db.control`
      delete from hub.idempotency
      where expires_at <= now() and (tenant_id, idem_key) in (
        select tenant_id, idem_key from hub.idempotency
        where expires_at <= now() order by expires_at limit ${batch})
      returning 1`));
}
