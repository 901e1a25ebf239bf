import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Json } from "../core/json.ts";
import type { Database } from "./database.ts";
import type { MasterKey } from "./master_key.ts";
import { type GrantKey, type GrantOwner, toSealed } from "./mcp_grants.ts";
import { pruneInBatches } from "./prune_batches.ts";
import { openSecret, sealSecret, type SecretPlace } from "./secret_box.ts";

interface Box {
  master_key_id: string;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
}

/** An authorization that somebody has begun. */
export interface BegunAuthorization extends GrantOwner {
  /** The key that began it. */
  keyId: string;
  secret: Json;
}

const PRUNE_BATCH = 1000;

/** What the hub is registered as at an issuer, as it was saved; null when it is not, or no more. */
export async function readRegistration(
  db: Database,
  { key, ...grant }: GrantKey & { key: MasterKey },
): Promise<Json | null> {
  const rows = await db.within(db.read<Box[]>`
    select master_key_id, nonce, ciphertext from hub.mcp_registrations
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer} and (expires_at is null or expires_at > now())`);
  const row = rows[0];
  if (row === undefined) return null;
  const place = registrationPlace(grant);
  return JSON.parse(await openSecret(toSealed(row), { key, place })) as Json;
}

/** Keeps what the hub is registered as. `expiresAt` in seconds since the epoch, 0 for never (RFC 7591). */
export async function saveRegistration(
  db: Database,
  { key, secret, expiresAt, ...grant }: GrantKey & {
    key: MasterKey;
    secret: Json;
    expiresAt: number;
  },
): Promise<void> {
  const box = await sealSecret(JSON.stringify(secret), { key, place: registrationPlace(grant) });
  await db.within(db.control`
    insert into hub.mcp_registrations (tenant_id, server, owner, issuer, master_key_id, nonce, ciphertext, expires_at)
    values (${grant.tenantId}, ${grant.server}, ${grant.owner}, ${grant.issuer}, ${box.masterKeyId}, ${box.nonce},
      ${box.ciphertext}, to_timestamp(${expiresAt === 0 ? null : expiresAt}::float8))
    on conflict (tenant_id, server, owner, issuer) do update set master_key_id = excluded.master_key_id,
      nonce = excluded.nonce, ciphertext = excluded.ciphertext, expires_at = excluded.expires_at,
      created_at = now()`);
}

/** Forgets what the hub is registered as: the issuer does not know it any more. */
export async function removeRegistration(db: Database, grant: GrantKey): Promise<void> {
  await db.within(db.control`
    delete from hub.mcp_registrations
    where tenant_id = ${grant.tenantId} and server = ${grant.server} and owner = ${grant.owner}
      and issuer = ${grant.issuer}`);
}

/** Keeps an authorization that was begun, in place of the one that the owner had begun before. */
export async function saveAuthorization(
  db: Database,
  { key, secret, stateHash, lifeMs, tenantId, server, owner, keyId }: BegunAuthorization & {
    key: MasterKey;
    stateHash: Uint8Array;
    lifeMs: number;
  },
): Promise<void> {
  const place = authorizationPlace(tenantId, stateHash);
  const box = await sealSecret(JSON.stringify(secret), { key, place });
  await db.within(db.control`
    insert into hub.mcp_authorizations (tenant_id, server, owner, key_id, state_hash, master_key_id, nonce,
      ciphertext, expires_at)
    values (${tenantId}, ${server}, ${owner}, ${
    toUuid(keyId as Id)
  }, ${stateHash}, ${box.masterKeyId},
      ${box.nonce}, ${box.ciphertext}, now() + ${lifeMs}::float8 * interval '1 millisecond')
    on conflict (tenant_id, server, owner) do update set key_id = excluded.key_id,
      state_hash = excluded.state_hash, master_key_id = excluded.master_key_id, nonce = excluded.nonce,
      ciphertext = excluded.ciphertext, created_at = now(), expires_at = excluded.expires_at`);
}

/** Takes an authorization that was begun, so that nobody can take it again; null when it is unknown, used or too old. */
export async function takeAuthorization(
  db: Database,
  { tenantId, stateHash, key }: { tenantId: string; stateHash: Uint8Array; key: MasterKey },
): Promise<BegunAuthorization | null> {
  const rows = await db.within(
    db.control<(Box & { server: string; owner: string; key_id: string; is_over: boolean })[]>`
      delete from hub.mcp_authorizations where tenant_id = ${tenantId} and state_hash = ${stateHash}
      returning server, owner, key_id, master_key_id, nonce, ciphertext, expires_at <= now() as is_over`,
  );
  const row = rows[0];
  if (row === undefined || row.is_over) return null;
  const place = authorizationPlace(tenantId, stateHash);
  const text = await openSecret(toSealed(row), { key, place });
  const { server, owner } = row;
  const keyId = fromUuid("key", row.key_id);
  return { tenantId, server, owner, keyId, secret: JSON.parse(text) as Json };
}

/** Drops authorizations that nobody has finished in time. */
export async function pruneAuthorizations(db: Database): Promise<number> {
  return await pruneInBatches(PRUNE_BATCH, () =>
    db.within(db.control`
      delete from hub.mcp_authorizations where (tenant_id, server, owner) in (
        select tenant_id, server, owner from hub.mcp_authorizations
        where expires_at <= now() order by expires_at limit ${PRUNE_BATCH})
      returning 1`));
}

/** Forgets what revoked keys had at MCP servers. */
export async function pruneRevokedOwners(db: Database): Promise<void> {
  await db.within(db.control`
    delete from hub.mcp_grants where (tenant_id, owner) in (
      select tenant_id, key_id::text from hub.api_keys where revoked_at is not null)`);
  await db.within(db.control`
    delete from hub.mcp_registrations where (tenant_id, owner) in (
      select tenant_id, key_id::text from hub.api_keys where revoked_at is not null)`);
  await db.within(db.control`
    delete from hub.mcp_owner_pins where (tenant_id, owner) in (
      select tenant_id, key_id::text from hub.api_keys where revoked_at is not null)`);
}

function registrationPlace({ tenantId, server, owner, issuer }: GrantKey): SecretPlace {
  return { tenantId, id: JSON.stringify([server, owner, issuer]), field: "mcp_registration" };
}

function authorizationPlace(tenantId: string, stateHash: Uint8Array): SecretPlace {
  return { tenantId, id: stateHash.toHex(), field: "mcp_authorization" };
}
