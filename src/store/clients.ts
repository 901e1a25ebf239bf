import { type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { Database } from "./database.ts";
import type { MasterKey } from "./master_key.ts";
import { openSecret, sealSecret } from "./secret_box.ts";

/** A provider kept in the database, with its credential if it has one. */
export interface StoredClient {
  tenantId: string;
  clientId: string;
  name: string;
  kind: string;
  settings: JsonObject;
}

interface SecretRow {
  master_key_id: string;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
}

/** Inserts or changes a provider. */
export async function saveClient(db: Database, client: StoredClient): Promise<void> {
  const sql = db.control;
  await db.within(sql`
    insert into hub.clients (tenant_id, client_id, name, kind, settings)
    values (${client.tenantId}, ${toUuid(client.clientId as Id)}, ${client.name}, ${client.kind},
      ${sql.json(client.settings)})
    on conflict (tenant_id, client_id) do update set name = excluded.name, kind = excluded.kind,
      settings = excluded.settings, updated_at = now()`);
}

/** Seals and stores one secret field of a provider (`api_key`). */
export async function saveClientSecret(
  db: Database,
  secret: { tenantId: string; clientId: string; field: string; value: string; key: MasterKey },
): Promise<void> {
  const { tenantId, clientId, field, value, key } = secret;
  const sealed = await sealSecret(value, { key, place: { tenantId, id: clientId, field } });
  await db.within(db.control`
    insert into hub.client_secrets (tenant_id, client_id, field, master_key_id, nonce, ciphertext)
    values (${tenantId}, ${
    toUuid(clientId as Id)
  }, ${field}, ${sealed.masterKeyId}, ${sealed.nonce},
      ${sealed.ciphertext})
    on conflict (tenant_id, client_id, field) do update set master_key_id = excluded.master_key_id,
      nonce = excluded.nonce, ciphertext = excluded.ciphertext`);
}

/** The secret in the clear; null when there is none. Never log it. */
export async function readClientSecret(
  db: Database,
  place: { tenantId: string; clientId: string; field: string; key: MasterKey },
): Promise<string | null> {
  const { tenantId, clientId, field, key } = place;
  const rows = await db.within(db.read<SecretRow[]>`
    select master_key_id, nonce, ciphertext from hub.client_secrets
    where tenant_id = ${tenantId} and client_id = ${toUuid(clientId as Id)} and field = ${field}`);
  const row = rows[0];
  if (row === undefined) return null;
  return await openSecret({
    masterKeyId: row.master_key_id,
    nonce: new Uint8Array(row.nonce),
    ciphertext: new Uint8Array(row.ciphertext),
  }, { key, place: { tenantId, id: clientId, field } });
}

/** API keys of providers by provider name: what `clients` and `client_secrets` hold for a tenant. */
export async function readClientKeys(
  db: Database,
  options: { tenantId: string; key: MasterKey },
): Promise<Map<string, string>> {
  const rows = await db.within(db.read<(SecretRow & { client_id: string; name: string })[]>`
    select c.client_id, c.name, s.master_key_id, s.nonce, s.ciphertext
    from hub.clients c join hub.client_secrets s on s.tenant_id = c.tenant_id and s.client_id = c.client_id
    where c.tenant_id = ${options.tenantId} and s.field = 'api_key'`);
  const keys = new Map<string, string>();
  for (const row of rows) {
    const id = `cli_${row.client_id.replaceAll("-", "")}`;
    const value = await openSecret({
      masterKeyId: row.master_key_id,
      nonce: new Uint8Array(row.nonce),
      ciphertext: new Uint8Array(row.ciphertext),
    }, { key: options.key, place: { tenantId: options.tenantId, id, field: "api_key" } });
    keys.set(row.name, value);
  }
  return keys;
}
