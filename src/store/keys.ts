import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";

/** An API key as it is stored: its secret only as a hash. Times are milliseconds since the epoch. */
export interface StoredKey {
  tenantId: string;
  keyId: string;
  name: string;
  role: "user" | "admin";
  lookupId: string;
  /** HMAC-SHA-256 of the whole token. */
  hash: Uint8Array;
  expiresAt: number | null;
  revokedAt: number | null;
}

interface Row {
  tenant_id: string;
  key_id: string;
  name: string;
  role: "user" | "admin";
  lookup_id: string;
  secret_hash: Uint8Array;
  expires_at: Date | null;
  revoked_at: Date | null;
}

/** Stores a new key. */
export async function createKey(
  db: Database,
  key: Omit<StoredKey, "expiresAt" | "revokedAt">,
): Promise<void> {
  await db.within(db.control`
    insert into hub.api_keys (tenant_id, key_id, name, role, lookup_id, secret_hash)
    values (${key.tenantId}, ${
    toUuid(key.keyId as Id)
  }, ${key.name}, ${key.role}, ${key.lookupId}, ${key.hash})`);
}

/** Revokes a key; false when the tenant has none of that id that is not revoked. */
export async function revokeKey(
  db: Database,
  { tenantId, keyId }: { tenantId: string; keyId: string },
): Promise<boolean> {
  const rows = await db.within(db.control`
    update hub.api_keys set revoked_at = now()
    where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)} and revoked_at is null
    returning 1`);
  return rows.length > 0;
}

/** All keys of all tenants, for the snapshot that requests are checked against. */
export async function listKeys(db: Database): Promise<StoredKey[]> {
  const rows = await db.within(db.read<Row[]>`
    select tenant_id, key_id, name, role, lookup_id, secret_hash, expires_at, revoked_at from hub.api_keys`);
  return rows.map(toKey);
}

/** The key with this lookup id, or null. */
export async function readKeyByLookup(db: Database, lookupId: string): Promise<StoredKey | null> {
  const rows = await db.within(db.read<Row[]>`
    select tenant_id, key_id, name, role, lookup_id, secret_hash, expires_at, revoked_at
    from hub.api_keys where lookup_id = ${lookupId}`);
  return rows[0] === undefined ? null : toKey(rows[0]);
}

function toKey(row: Row): StoredKey {
  return {
    tenantId: row.tenant_id,
    keyId: fromUuid("key", row.key_id),
    name: row.name,
    role: row.role,
    lookupId: row.lookup_id,
    hash: new Uint8Array(row.secret_hash),
    expiresAt: row.expires_at?.getTime() ?? null,
    revokedAt: row.revoked_at?.getTime() ?? null,
  };
}
