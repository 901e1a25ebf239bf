import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import { type AuditEntry, noteFrom } from "./audit.ts";
import type { SealedField, SecretField, StoredSecret } from "./client_secrets.ts";
import type { Database } from "./database.ts";
import type { SealedSecret } from "./secret_box.ts";

/** A provider kept in the database. Its settings are those of the configuration, without what is secret. */
export interface NewClient {
  tenantId: string;
  clientId: string;
  name: string;
  kind: string;
  settings: JsonObject;
}

/** A provider as it is read: its secrets are sealed. Times are milliseconds since the epoch. */
export interface StoredClient extends NewClient {
  createdAt: number;
  updatedAt: number;
  /** Another one after each change, rotations among them. */
  version: string;
  secrets: readonly StoredSecret[];
}

/** Which provider, and for the audit who changes it. */
export interface ClientAction {
  tenantId: string;
  clientId: string;
  audit: AuditEntry;
}

/** A change of a provider as it was read: whoever came in between is not written over. */
export type ClientChange = ClientAction & Pick<StoredClient, "version">;

interface Row {
  tenant_id: string;
  client_id: string;
  name: string;
  kind: string;
  settings: JsonObject;
  created_at: Date;
  updated_at: Date;
  version: string;
  secrets: {
    field: SecretField;
    master_key_id: string;
    nonce: string;
    ciphertext: string;
    expires_at: string | null;
  }[];
}

/** The providers of a tenant, the oldest first, or one of them. */
export async function listClients(
  db: Database,
  { tenantId, clientId }: { tenantId: string; clientId?: string },
): Promise<StoredClient[]> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select c.tenant_id, c.client_id, c.name, c.kind, c.settings, c.created_at, c.updated_at,
      ${
    versionOf(sql)
  } as version, coalesce((select jsonb_agg(jsonb_build_object('field', s.field, 'master_key_id', s.master_key_id,
          'nonce', encode(s.nonce, 'hex'), 'ciphertext', encode(s.ciphertext, 'hex'), 'expires_at', s.expires_at)
          order by s.field)
        from hub.client_secrets s
        where s.tenant_id = c.tenant_id and s.client_id = c.client_id
          and (s.expires_at is null or s.expires_at > now())), '[]') as secrets
    from hub.clients c where c.tenant_id = ${tenantId}
    ${clientId === undefined ? sql`` : sql`and c.client_id = ${toUuid(clientId as Id)}`}
    order by c.client_id`);
  return rows.map(toClient);
}

/** Stores a new provider with its secrets. A name that is taken is a unique violation. */
export async function createClient(
  db: Database,
  { audit, ...client }: NewClient & { secrets: readonly SealedField[]; audit: AuditEntry },
): Promise<void> {
  const sql = db.control;
  const { tenantId, secrets } = client;
  const clientId = toUuid(client.clientId as Id);
  await db.within(sql`
    with client as (
      insert into hub.clients (tenant_id, client_id, name, kind, settings)
      values (${tenantId}, ${clientId}, ${client.name}, ${client.kind}, ${
    sql.json(client.settings)
  })
      returning client_id),
    sealed as (${upsertSecrets(sql, tenantId, secrets)}),
    noted as (${noteFrom(sql, "client", { tenantId, audit })})
    select 1`);
}

/** Changes kind and settings, and the secrets that are given; false when the tenant has no such provider of this version. */
export async function changeClient(
  db: Database,
  { tenantId, clientId, version, audit, kind, settings, secrets }:
    & ClientChange
    & Pick<NewClient, "kind" | "settings">
    & { secrets: readonly SealedField[] },
): Promise<boolean> {
  const sql = db.control;
  return counted(
    await db.within(sql<{ changed: number }[]>`
      with client as (
        update hub.clients set kind = ${kind}, settings = ${sql.json(settings)}, updated_at = now()
        where tenant_id = ${tenantId} and client_id = ${toUuid(clientId as Id)}
          and ${versionOf(sql)} = ${version}
        returning client_id),
      sealed as (${upsertSecrets(sql, tenantId, secrets)}),
      noted as (${noteFrom(sql, "client", { tenantId, audit })})
      select count(*)::int as changed from client`),
  );
}

/**
 * Gives a provider another key. The one that it had holds beside it; when that was not yet seen to work, it is given up
 * and the one from before it goes on to hold. False when the tenant has no such provider of this version.
 */
export async function rotateClientKey(
  db: Database,
  { tenantId, clientId, version, audit, sealed }: ClientChange & { sealed: SealedSecret },
): Promise<boolean> {
  const sql = db.control;
  return counted(
    await db.within(sql<{ changed: number }[]>`
      with client as (
        update hub.clients set updated_at = now()
        where tenant_id = ${tenantId} and client_id = ${toUuid(clientId as Id)}
          and ${versionOf(sql)} = ${version}
        returning tenant_id, client_id),
      sealed as (
        insert into hub.client_secrets (tenant_id, client_id, field, master_key_id, nonce, ciphertext)
        select tenant_id, client_id, 'api_key', ${sealed.masterKeyId}, ${sealed.nonce}::bytea,
          ${sealed.ciphertext}::bytea
        from client
        union all
        select s.tenant_id, s.client_id, 'api_key_former', s.master_key_id, s.nonce, s.ciphertext
        from hub.client_secrets s join client c on c.tenant_id = s.tenant_id and c.client_id = s.client_id
        where s.tenant_id = ${tenantId} and s.field = 'api_key'
        on conflict (tenant_id, client_id, field) do update set master_key_id = excluded.master_key_id,
          nonce = excluded.nonce, ciphertext = excluded.ciphertext, expires_at = null
        where client_secrets.field = 'api_key' or client_secrets.expires_at is not null),
      noted as (${noteFrom(sql, "client", { tenantId, audit })})
      select count(*)::int as changed from client`),
  );
}

/** Removes a provider with its secrets; false when the tenant has none of that id. */
export async function removeClient(
  db: Database,
  { tenantId, clientId, audit }: ClientAction,
): Promise<boolean> {
  const sql = db.control;
  return counted(
    await db.within(sql<{ changed: number }[]>`
      with client as (
        delete from hub.clients where tenant_id = ${tenantId} and client_id = ${
      toUuid(clientId as Id)
    }
        returning client_id),
      noted as (${noteFrom(sql, "client", { tenantId, audit })})
      select count(*)::int as changed from client`),
  );
}

function upsertSecrets(
  sql: Database["control"],
  tenantId: string,
  secrets: readonly SealedField[],
) {
  const rows = secrets.map((
    { clientId, field, masterKeyId, nonce, ciphertext, expired = false },
  ) => ({
    client_id: toUuid(clientId as Id),
    field,
    master_key_id: masterKeyId,
    nonce: nonce.toHex(),
    ciphertext: ciphertext.toHex(),
    expired,
  }));
  return sql`
    insert into hub.client_secrets (tenant_id, client_id, field, master_key_id, nonce, ciphertext, expires_at)
    select ${tenantId}::uuid, c.client_id, s.field, s.master_key_id, decode(s.nonce, 'hex'),
      decode(s.ciphertext, 'hex'), case when s.expired then now() end
    from jsonb_to_recordset(${
    sql.json(rows)
  }::jsonb) as s(client_id uuid, field text, master_key_id text,
      nonce text, ciphertext text, expired boolean)
    join client c on c.client_id = s.client_id
    on conflict (tenant_id, client_id, field) do update set master_key_id = excluded.master_key_id,
      nonce = excluded.nonce, ciphertext = excluded.ciphertext, expires_at = excluded.expires_at`;
}

function versionOf(sql: Database["control"] | Database["read"]) {
  return sql`(updated_at at time zone 'UTC')::text`;
}

function counted(rows: readonly { changed: number }[]): boolean {
  return (rows[0]?.changed ?? 0) > 0;
}

function toClient(row: Row): StoredClient {
  return {
    tenantId: row.tenant_id,
    clientId: fromUuid("cli", row.client_id),
    name: row.name,
    kind: row.kind,
    settings: row.settings,
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime(),
    version: row.version,
    secrets: row.secrets.map((secret) => ({
      field: secret.field,
      masterKeyId: secret.master_key_id,
      nonce: Uint8Array.fromHex(secret.nonce),
      ciphertext: Uint8Array.fromHex(secret.ciphertext),
      expiresAt: secret.expires_at === null ? null : Date.parse(secret.expires_at),
    })),
  };
}
