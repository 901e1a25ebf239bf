import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import { type AuditEntry, noteFrom } from "./audit.ts";
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
  createdAt: number;
  owner: string | null;
  tags: readonly string[];
  /** What it may do, as its owner wrote it. */
  policy: JsonObject;
  /** The token that it had before it was rotated, as long as it holds. */
  former: { lookupId: string; hash: Uint8Array; until: number } | null;
}

/** A key that is to be. */
export type NewKey =
  & Pick<StoredKey, "tenantId" | "keyId" | "name" | "role" | "lookupId" | "hash">
  & Partial<Pick<StoredKey, "expiresAt" | "owner" | "tags" | "policy">>;

/** What may change in a key; what is left out stays. */
export type KeyChange = Partial<
  Pick<StoredKey, "name" | "expiresAt" | "owner" | "tags" | "policy">
>;

/** Which key, and for the audit who changes it. */
export interface KeyAction {
  tenantId: string;
  keyId: string;
  audit: AuditEntry;
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
  created_at: Date;
  owner: string | null;
  tags: string[];
  policy: JsonObject;
  former_lookup_id: string | null;
  former_hash: Uint8Array | null;
  former_until: Date | null;
}

function columns(sql: Database["read"]) {
  return sql`tenant_id, key_id, name, role, lookup_id, secret_hash, expires_at, revoked_at, created_at, owner, tags,
    policy, former_lookup_id, former_hash, former_until`;
}

/** Stores a new key, and that it was made. */
export async function createKey(db: Database, key: NewKey, audit?: AuditEntry): Promise<void> {
  const sql = db.control;
  const { tenantId } = key;
  const keyId = toUuid(key.keyId as Id);
  await db.within(sql`
    with key as (
      insert into hub.api_keys (tenant_id, key_id, name, role, lookup_id, secret_hash, expires_at, owner, tags, policy)
      values (${tenantId}, ${keyId}, ${key.name}, ${key.role}, ${key.lookupId}, ${key.hash},
        ${timeOf(key.expiresAt ?? null)}::text::timestamptz, ${key.owner ?? null},
        ${sql.json([...key.tags ?? []])}, ${sql.json(key.policy ?? {})})
      returning key_id),
    noted as (${noteFrom(sql, "key", { tenantId, audit })})
    select 1`);
}

/** Changes what is given; false when the tenant has no such key, or a revoked one. */
export async function changeKey(
  db: Database,
  { tenantId, keyId, audit, ...change }: KeyAction & KeyChange,
): Promise<boolean> {
  const sql = db.control;
  return await act(
    db,
    { tenantId, keyId, audit },
    sql`name = coalesce(${change.name ?? null}, name)
    ${
      change.expiresAt === undefined
        ? sql``
        : sql`, expires_at = ${timeOf(change.expiresAt)}::text::timestamptz`
    }
    ${change.owner === undefined ? sql`` : sql`, owner = ${change.owner}`}
    ${change.tags === undefined ? sql`` : sql`, tags = ${sql.json([...change.tags])}`}
    ${change.policy === undefined ? sql`` : sql`, policy = ${sql.json(change.policy)}`}`,
  );
}

/** Gives a key another token; the one it had holds for the grace period, and one from before that no more. */
export async function rotateKey(
  db: Database,
  { lookupId, hash, graceMs, ...action }: KeyAction & {
    lookupId: string;
    hash: Uint8Array;
    graceMs: number;
  },
): Promise<boolean> {
  const sql = db.control;
  return await act(
    db,
    action,
    sql`lookup_id = ${lookupId}, secret_hash = ${hash}, former_lookup_id = lookup_id, former_hash = secret_hash,
    former_until = now() + ${graceMs}::float8 * interval '1 millisecond'`,
  );
}

/** Revokes a key; false when the tenant has none of that id that is not revoked. */
export async function revokeKey(
  db: Database,
  { tenantId, keyId, audit }: { tenantId: string; keyId: string; audit?: AuditEntry },
): Promise<boolean> {
  return await act(db, { tenantId, keyId, audit }, db.control`revoked_at = now()`);
}

/** All keys of all tenants, for the snapshot that requests are checked against. */
export async function listKeys(db: Database): Promise<StoredKey[]> {
  const rows = await db.within(db.read<Row[]>`
    select tenant_id, key_id, name, role, lookup_id, secret_hash, expires_at, revoked_at, created_at, owner, tags,
      policy, former_lookup_id, former_hash, former_until from hub.api_keys`);
  return rows.map(toKey);
}

/** A page of a tenant's keys, the oldest first. */
export async function listTenantKeys(
  db: Database,
  { tenantId, limit, after }: { tenantId: string; limit: number; after: string | null },
): Promise<{ keys: StoredKey[]; nextCursor: string | null }> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select ${columns(sql)} from hub.api_keys where tenant_id = ${tenantId}
    ${after === null ? sql`` : sql`and key_id > ${toUuid(after as Id)}::uuid`}
    order by key_id limit ${limit + 1}`);
  const keys = rows.slice(0, limit).map(toKey);
  return { keys, nextCursor: rows.length > limit ? keys.at(-1)?.keyId ?? null : null };
}

/** A tenant's key, or null. */
export async function readKey(
  db: Database,
  { tenantId, keyId }: { tenantId: string; keyId: string },
): Promise<StoredKey | null> {
  const rows = await db.within(db.read<Row[]>`
    select ${columns(db.read)} from hub.api_keys
    where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)}`);
  return rows[0] === undefined ? null : toKey(rows[0]);
}

/** The key that has, or until now had, this lookup id; null when there is none. */
export async function readKeyByLookup(db: Database, lookupId: string): Promise<StoredKey | null> {
  const rows = await db.within(db.read<Row[]>`
    select ${columns(db.read)} from hub.api_keys
    where lookup_id = ${lookupId} or former_lookup_id = ${lookupId}`);
  return rows[0] === undefined ? null : toKey(rows[0]);
}

/** One change of a key that is not revoked, and its note, in one statement. */
async function act(
  db: Database,
  { tenantId, keyId, audit }: { tenantId: string; keyId: string; audit?: AuditEntry | undefined },
  set: ReturnType<Database["control"]>,
): Promise<boolean> {
  const sql = db.control;
  const rows = await db.within(sql<{ changed: number }[]>`
    with key as (
      update hub.api_keys set ${set}
      where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)} and revoked_at is null
      returning key_id),
    noted as (${noteFrom(sql, "key", { tenantId, audit })})
    select count(*)::int as changed from key`);
  return (rows[0]?.changed ?? 0) > 0;
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

function toKey(row: Row): StoredKey {
  const { former_lookup_id, former_hash, former_until } = row;
  return {
    tenantId: row.tenant_id,
    keyId: fromUuid("key", row.key_id),
    name: row.name,
    role: row.role,
    lookupId: row.lookup_id,
    hash: new Uint8Array(row.secret_hash),
    expiresAt: row.expires_at?.getTime() ?? null,
    revokedAt: row.revoked_at?.getTime() ?? null,
    createdAt: row.created_at.getTime(),
    owner: row.owner,
    tags: row.tags,
    policy: row.policy,
    former: former_lookup_id === null || former_hash === null || former_until === null ? null : {
      lookupId: former_lookup_id,
      hash: new Uint8Array(former_hash),
      until: former_until.getTime(),
    },
  };
}
