import type { Json } from "../core/json.ts";
import type { Database } from "./database.ts";
import type { MasterKey } from "./master_key.ts";
import { openSecret, type SealedSecret, sealSecret, type SecretPlace } from "./secret_box.ts";

/** The owner of what an operator let in for all keys of a tenant; any other owner is the uuid of a key. */
export const WHOLE_TENANT = "tenant";

/** Whose authorization for which server. */
export interface GrantOwner {
  tenantId: string;
  server: string;
  owner: string;
}

/** One authorization: of one owner, for one server, by one authorization server. */
export interface GrantKey extends GrantOwner {
  issuer: string;
}

/** A grant without what is secret. Times are milliseconds since the epoch. */
export interface GrantFacts extends GrantKey {
  state: "ready" | "needs_auth";
  reason: string | null;
  scope: string | null;
  wantedScope: string | null;
  version: number;
  failures: number;
  authorizedAt: number;
  expiresAt: number | null;
  /** Whether its access token is about to expire, by the database's clock. */
  isDue: boolean;
  isOver: boolean;
  /** Whether it was refreshed within the last minute. */
  isFresh: boolean;
  /** Who refreshes it now; null when nobody does. */
  refreshOwner: string | null;
  /** Whether nobody may begin to refresh it now. */
  isHeld: boolean;
}

/** A grant with its box still closed. */
export interface StoredGrant extends GrantFacts {
  sealed: SealedSecret;
}

/** What a token says of its time, in seconds; null when it says nothing. */
export interface TokenTimes {
  scope: string | null;
  lifeSeconds: number | null;
}

interface Row {
  owner: string;
  issuer: string;
  state: "ready" | "needs_auth";
  reason: string | null;
  scope: string | null;
  wanted_scope: string | null;
  version: number;
  failures: number;
  authorized_at: Date;
  expires_at: Date | null;
  is_due: boolean | null;
  is_over: boolean | null;
  is_fresh: boolean | null;
  refresh_owner: string | null;
  is_held: boolean | null;
  master_key_id: string;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
}

/** The newest grant of an owner for a server; without one of its own that of its tenant. */
export async function readGrant(
  db: Database,
  { tenantId, server, owner }: GrantOwner,
): Promise<StoredGrant | null> {
  const rows = await db.within(db.read<Row[]>`
    select owner, issuer, state, reason, scope, wanted_scope, version, failures, authorized_at, expires_at,
      refresh_after <= now() as is_due, expires_at <= now() as is_over,
      refreshed_at > now() - interval '1 minute' as is_fresh,
      refresh_owner, refresh_until > now() as is_held, master_key_id, nonce, ciphertext
    from hub.mcp_grants
    where tenant_id = ${tenantId} and server = ${server} and owner in (${owner}, ${WHOLE_TENANT})
    order by owner = ${WHOLE_TENANT}, authorized_at desc limit 1`);
  const row = rows[0];
  return row === undefined ? null : {
    tenantId,
    server,
    owner: row.owner,
    issuer: row.issuer,
    state: row.state,
    reason: row.reason,
    scope: row.scope,
    wantedScope: row.wanted_scope,
    version: row.version,
    failures: row.failures,
    authorizedAt: row.authorized_at.getTime(),
    expiresAt: row.expires_at?.getTime() ?? null,
    isDue: row.is_due ?? false,
    isOver: row.is_over ?? false,
    isFresh: row.is_fresh ?? false,
    refreshOwner: row.refresh_owner,
    isHeld: row.is_held ?? false,
    sealed: toSealed(row),
  };
}

/** The servers that these owners of a tenant have authorized. */
export async function listGranted(
  db: Database,
  { tenantId, owners }: { tenantId: string; owners: readonly string[] },
): Promise<GrantOwner[]> {
  return await db.within(db.read<GrantOwner[]>`
    select distinct tenant_id as "tenantId", server, owner from hub.mcp_grants
    where tenant_id = ${tenantId} and owner in (
      select jsonb_array_elements_text(${db.read.json([...owners])}::jsonb))`);
}

/** Opens the box of a grant. Never log what is in it. */
export async function openGrant(grant: StoredGrant, key: MasterKey): Promise<Json> {
  return JSON.parse(await openSecret(grant.sealed, { key, place: grantPlace(grant) })) as Json;
}

/** Stores what a finished authorization gave, in place of whatever the owner had from this issuer. */
export async function saveGrant(
  db: Database,
  { secret, key, scope, lifeSeconds, ...grant }:
    & GrantKey
    & TokenTimes
    & { secret: Json; key: MasterKey },
): Promise<void> {
  const box = await sealSecret(JSON.stringify(secret), { key, place: grantPlace(grant) });
  const sql = db.control;
  await db.within(sql`
    insert into hub.mcp_grants (tenant_id, server, owner, issuer, state, scope, master_key_id, nonce, ciphertext,
      expires_at, refresh_after)
    values (${grant.tenantId}, ${grant.server}, ${grant.owner}, ${grant.issuer}, 'ready', ${scope},
      ${box.masterKeyId}, ${box.nonce}, ${box.ciphertext}, ${after(sql, lifeSeconds)},
      ${after(sql, dueSeconds(lifeSeconds))})
    on conflict (tenant_id, server, owner, issuer) do update set state = 'ready', reason = null,
      scope = excluded.scope, wanted_scope = null, master_key_id = excluded.master_key_id, nonce = excluded.nonce,
      ciphertext = excluded.ciphertext, version = mcp_grants.version + 1, refresh_owner = null, refresh_until = null,
      failures = 0, authorized_at = now(), refreshed_at = null, expires_at = excluded.expires_at,
      refresh_after = excluded.refresh_after`);
}

/** Makes `owner` the only one who refreshes this version for a while; false when somebody else does, or has. */
export async function claimRefresh(
  db: Database,
  { grant, refreshOwner, leaseMs }: { grant: GrantFacts; refreshOwner: string; leaseMs: number },
): Promise<boolean> {
  const rows = await db.within(db.control<{ version: number }[]>`
    update hub.mcp_grants
    set refresh_owner = ${refreshOwner}, refresh_until = now() + ${leaseMs}::float8 * interval '1 millisecond'
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer} and version = ${grant.version} and state = 'ready'
      and (refresh_until is null or refresh_until <= now() or refresh_owner = ${refreshOwner})
    returning version`);
  return rows.length > 0;
}

/** Stores what a refresh gave; false when somebody else came in between. */
export async function saveRefreshed(
  db: Database,
  { grant, refreshOwner, secret, key, scope, lifeSeconds }: TokenTimes & {
    grant: GrantFacts;
    refreshOwner: string;
    secret: Json;
    key: MasterKey;
  },
): Promise<boolean> {
  const box = await sealSecret(JSON.stringify(secret), { key, place: grantPlace(grant) });
  const sql = db.control;
  const rows = await db.within(sql<{ version: number }[]>`
    update hub.mcp_grants set master_key_id = ${box.masterKeyId}, nonce = ${box.nonce},
      ciphertext = ${box.ciphertext}, scope = coalesce(${scope}, scope), version = version + 1,
      refresh_owner = null, refresh_until = null, failures = 0, refreshed_at = now(),
      expires_at = ${after(sql, lifeSeconds)}, refresh_after = ${
    after(sql, dueSeconds(lifeSeconds))
  }
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer} and version = ${grant.version} and refresh_owner = ${refreshOwner}
    returning version`);
  return rows.length > 0;
}

/** A refresh did not come through: nobody tries again for a while. */
export async function postponeRefresh(
  db: Database,
  { grant, refreshOwner, backoffMs }: {
    grant: GrantFacts;
    refreshOwner: string;
    backoffMs: number;
  },
): Promise<void> {
  await db.within(db.control`
    update hub.mcp_grants set refresh_owner = null, failures = failures + 1,
      refresh_until = now() + ${backoffMs}::float8 * interval '1 millisecond'
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer} and version = ${grant.version} and refresh_owner = ${refreshOwner}`);
}

/** The tokens of this version hold no more: only somebody who authorizes anew can help. */
export async function endGrant(
  db: Database,
  { grant, reason }: { grant: GrantFacts; reason: string },
): Promise<void> {
  await db.within(db.control`
    update hub.mcp_grants set state = 'needs_auth', reason = ${
    reason.slice(0, 500)
  }, version = version + 1,
      refresh_owner = null, refresh_until = null
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer} and version = ${grant.version}`);
}

/** The server wants more than what a grant is for: the next authorization asks for it too. */
export async function saveWantedScope(
  db: Database,
  { grant, scope }: { grant: GrantFacts; scope: string },
): Promise<void> {
  await db.within(db.control`
    update hub.mcp_grants set wanted_scope = ${scope}
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer}`);
}

/** Forgets what an owner had from other issuers than the one of this grant. */
export async function removeOtherGrants(db: Database, grant: GrantKey): Promise<void> {
  await db.within(db.control`
    delete from hub.mcp_grants where tenant_id = ${grant.tenantId} and server = ${grant.server}
      and owner = ${grant.owner} and issuer <> ${grant.issuer}`);
}

/** Forgets all that an owner had for a server; false when there was nothing. */
export async function removeGrants(
  db: Database,
  { tenantId, server, owner }: GrantOwner,
): Promise<boolean> {
  const rows = await db.within(db.control<{ n: number }[]>`
    with grants as (
      delete from hub.mcp_grants where tenant_id = ${tenantId} and server = ${server} and owner = ${owner}
      returning issuer),
    registrations as (
      delete from hub.mcp_registrations where tenant_id = ${tenantId} and server = ${server} and owner = ${owner}
      returning issuer),
    begun as (
      delete from hub.mcp_authorizations where tenant_id = ${tenantId} and server = ${server}
        and owner = ${owner} returning owner)
    select (select count(*) from grants)::int as n`);
  return (rows[0]?.n ?? 0) > 0;
}

/** Refreshed early enough that a request that is under way comes through: half a minute, less for short lives. */
function dueSeconds(lifeSeconds: number | null): number | null {
  return lifeSeconds === null ? null : lifeSeconds - Math.min(30, lifeSeconds / 10);
}

function after(sql: Database["control"], seconds: number | null) {
  return sql`now() + ${seconds}::float8 * interval '1 second'`;
}

function grantPlace({ tenantId, server, owner, issuer }: GrantKey): SecretPlace {
  return { tenantId, id: JSON.stringify([server, owner, issuer]), field: "mcp_grant" };
}

/** The box of a row. */
export function toSealed(
  row: { master_key_id: string; nonce: Uint8Array; ciphertext: Uint8Array },
): SealedSecret {
  return {
    masterKeyId: row.master_key_id,
    nonce: new Uint8Array(row.nonce),
    ciphertext: new Uint8Array(row.ciphertext),
  };
}
