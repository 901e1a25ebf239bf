import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Access, Belonging, RunBelonging } from "../core/ownership.ts";
import type { Database } from "./database.ts";

type Sql = Database["read"];
type Fragment = ReturnType<Database["read"]>;

/**
 * SQL of whose a row of `hub.sessions` or `hub.responses` is, one text for the owner or the key that has none; null for a
 * row without either. The indexes of migration 0032 are on this expression, word by word.
 */
export function ownerRef(sql: Sql, row: Fragment): Fragment {
  return sql`(coalesce('owner:' || ${row}.owner, 'key:' || ${row}.key_id::text))`;
}

/** The texts of `ownerRef` that a caller reaches with `sessions: "owner"`: its key's own, and its owner's or null. */
export function refsOf({ keyId, owner = null }: Access): [key: string, owner: string | null] {
  return [`key:${toUuid(keyId as Id)}`, owner === null ? null : `owner:${owner}`];
}

/** SQL that is true for rows of `hub.sessions` or `hub.responses` that the caller reaches. `reaches` is the same rule. */
export function isReached(sql: Sql, access: Access, row: Fragment): Fragment {
  const { sessions = "owner" } = access;
  if (sessions === "all") return sql`true`;
  if (sessions === "own") return sql`${row}.key_id = ${toUuid(access.keyId as Id)}::uuid`;
  const [key, owner] = refsOf(access);
  return sql`${ownerRef(sql, row)} in (${key}::text, ${owner}::text)`;
}

/** SQL that is true for keys, by the id in `keyId`, whose grants the caller reaches. A grant belongs to its run's key. */
export function isKeyReached(sql: Sql, access: Access, keyId: Fragment): Fragment {
  const { sessions = "owner", owner = null } = access;
  if (sessions === "all") return sql`true`;
  const own: Fragment = sql`${keyId} = ${toUuid(access.keyId as Id)}::uuid`;
  if (sessions === "own" || owner === null) return own;
  return sql`(${own} or exists (select 1 from hub.api_keys k
    where k.tenant_id = ${access.tenantId} and k.key_id = ${keyId} and k.owner = ${owner}))`;
}

interface Row {
  key_id: string | null;
  owner: string | null;
  run_key: string | null;
  run_key_owner: string | null;
}

/** Whose a run is; null when the tenant has none of this id that the caller reaches. */
export async function readRunBelonging(
  db: Database,
  access: Access,
  runId: string,
): Promise<RunBelonging | null> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select s.key_id, s.owner, r.key_id as run_key, k.owner as run_key_owner
    from hub.runs r
    join hub.sessions s on s.tenant_id = r.tenant_id and s.session_id = r.session_id
    left join hub.api_keys k on k.tenant_id = r.tenant_id and k.key_id = r.key_id
    where r.tenant_id = ${access.tenantId} and r.run_id = ${toUuid(runId as Id)}
      and ${isReached(sql, access, sql`s`)}`);
  const row = rows[0];
  if (row === undefined) return null;
  return {
    session: { keyId: toKeyId(row.key_id), owner: row.owner },
    runKey: { keyId: toKeyId(row.run_key), owner: row.run_key_owner },
  };
}

/** Whose the session of a run is, for what else is made for it; null when there is no such run. */
export async function readSessionBelonging(
  db: Database,
  { tenantId, runId }: { tenantId: string; runId: string },
): Promise<Belonging | null> {
  const rows = await db.within(db.read<Pick<Row, "key_id" | "owner">[]>`
    select s.key_id, s.owner from hub.runs r
    join hub.sessions s on s.tenant_id = r.tenant_id and s.session_id = r.session_id
    where r.tenant_id = ${tenantId} and r.run_id = ${toUuid(runId as Id)}`);
  const row = rows[0];
  return row === undefined ? null : { keyId: toKeyId(row.key_id), owner: row.owner };
}

function toKeyId(uuid: string | null): string | null {
  return uuid === null ? null : fromUuid("key", uuid);
}
