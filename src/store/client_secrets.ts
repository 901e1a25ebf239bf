import { type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { Database } from "./database.ts";
import type { MasterKey } from "./master_key.ts";
import { openSecret, type SealedSecret, sealSecret, type SecretPlace } from "./secret_box.ts";
import { DEFAULT_TENANT_ID } from "./tenant.ts";

/** What is sealed of a provider: its key, the key from before as long as that holds, its headers as JSON. */
export type SecretField = "api_key" | "api_key_former" | "headers";

/** A sealed secret that holds. */
export interface StoredSecret extends SealedSecret {
  field: SecretField;
  /** Null unless a secret that followed it has been seen to work. */
  expiresAt: number | null;
}

/** What of a provider is needed to open its secrets. */
interface Sealed {
  tenantId: string;
  clientId: string;
  secrets: readonly StoredSecret[];
}

/** How long a former key still holds once the one that followed it has been seen to work. */
const FORMER_SECONDS = 300;

/** A secret that is to be stored; `expired` ones no longer hold. */
export interface SealedField extends SealedSecret {
  clientId: string;
  field: SecretField;
  expired?: boolean;
}

/** Seals a secret of a provider. */
export async function sealField(
  value: string,
  { tenantId, clientId, field, key }: {
    tenantId: string;
    clientId: string;
    field: SecretField;
    key: MasterKey;
  },
): Promise<SealedField> {
  const place = placeOf({ tenantId, clientId }, field);
  return { ...await sealSecret(value, { key, place }), clientId, field };
}

/** The secrets of a provider in the clear, by field; an empty one is none. Never log them. */
export async function openSecrets(
  client: Sealed,
  key: MasterKey,
): Promise<Partial<Record<SecretField, string>>> {
  const opened: Partial<Record<SecretField, string>> = {};
  for (const secret of client.secrets) {
    const value = await openSecret(secret, { key, place: placeOf(client, secret.field) });
    if (value !== "") opened[secret.field] = value;
  }
  return opened;
}

/** The settings of a provider as a file would have them. */
export function settingsOf(
  { kind, settings }: { kind: string; settings: JsonObject },
  { api_key: apiKey, headers }: Partial<Record<SecretField, string>>,
): JsonObject {
  return {
    ...settings,
    kind,
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(headers === undefined ? {} : { headers: JSON.parse(headers) as JsonObject }),
  };
}

/** Seals again, with the newest master key, what former ones sealed. `left` says how many cannot be read. */
export async function resealClientSecrets(
  db: Database,
  clients: readonly Sealed[],
  key: MasterKey,
): Promise<{ resealed: number; left: number }> {
  const tally = { resealed: 0, left: 0 };
  for (const client of clients) {
    const { tenantId } = client;
    for (const secret of client.secrets) {
      if (secret.masterKeyId === key.id) continue;
      const place = placeOf(client, secret.field);
      const value = await openSecret(secret, { key, place }).catch(() => null);
      if (value === null) {
        tally.left++;
        continue;
      }
      const sealed = await sealSecret(value, { key, place });
      // One that was replaced meanwhile is of the newest key already.
      const rows = await db.within(db.control<{ field: string }[]>`
        update hub.client_secrets set master_key_id = ${sealed.masterKeyId}, nonce = ${sealed.nonce},
          ciphertext = ${sealed.ciphertext}
        where tenant_id = ${tenantId} and client_id = ${toUuid(client.clientId as Id)}
          and field = ${secret.field} and nonce = ${secret.nonce}
        returning field`);
      tally.resealed += rows.length;
    }
  }
  return tally;
}

/** A key keeps its place when it becomes the former one. */
function placeOf(
  { tenantId, clientId }: { tenantId: string; clientId: string },
  field: SecretField,
): SecretPlace {
  return { tenantId, id: clientId, field: field === "api_key_former" ? "api_key" : field };
}

/** The key with this nonce was seen to work: the former one holds for some minutes more. False when that was known. */
export async function proveClientKey(
  db: Database,
  { tenantId, clientId, nonce }: { tenantId: string; clientId: string; nonce: Uint8Array },
): Promise<boolean> {
  const id = toUuid(clientId as Id);
  const rows = await db.within(db.control<{ field: string }[]>`
        update hub.client_secrets set expires_at = now() + ${FORMER_SECONDS}::int * interval '1 second'
        where tenant_id = ${tenantId} and client_id = ${id} and field = 'api_key_former'
          and expires_at is null and exists (
            select 1 from hub.client_secrets s where s.tenant_id = ${tenantId} and s.client_id = ${id}
              and s.field = 'api_key' and s.nonce = ${nonce})
        returning field`);
  return rows.length > 0;
}

/** Drops keys of providers whose time is over. Only the hub's own tenant has providers. */
export async function pruneClientSecrets(db: Database): Promise<number> {
  const rows = await db.within(db.control<{ field: string }[]>`
    delete from hub.client_secrets where tenant_id = ${DEFAULT_TENANT_ID} and expires_at < now()
    returning field`);
  return rows.length;
}
