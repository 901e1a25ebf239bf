import type { Database } from "./database.ts";
import type { MasterKey } from "./master_key.ts";
import { openSecret, type SealedSecret, sealSecret } from "./secret_box.ts";

/** Which of the hub's own secrets. */
export interface HubSecret {
  tenantId: string;
  name: string;
}

interface Row {
  master_key_id: string;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
}

/** One of the hub's own secrets; null when it was never stored. Throws `invalid_configuration` for another master key. */
export async function readHubSecret(
  db: Database,
  { key, ...secret }: HubSecret & { key: MasterKey },
): Promise<string | null> {
  const sealed = await readSealed(db, secret);
  return sealed === null ? null : await openSecret(sealed, { key, place: placeOf(secret) });
}

/** Stores the secret unless there is one, which is sealed again if a former master key had sealed it. */
export async function resealHubSecret(
  db: Database,
  { value, key, ...secret }: HubSecret & { value: string; key: MasterKey },
): Promise<boolean> {
  const { tenantId, name } = secret;
  const before = await readSealed(db, secret);
  if (before?.masterKeyId === key.id) return false;
  const place = placeOf(secret);
  const text = before === null ? value : await openSecret(before, { key, place });
  const sealed = await sealSecret(text, { key, place });
  const rows = await db.within(db.control<{ name: string }[]>`
    insert into hub.secrets (tenant_id, name, master_key_id, nonce, ciphertext)
    values (${tenantId}, ${name}, ${sealed.masterKeyId}, ${sealed.nonce}, ${sealed.ciphertext})
    on conflict (tenant_id, name) do update set master_key_id = excluded.master_key_id, nonce = excluded.nonce,
      ciphertext = excluded.ciphertext
    where secrets.nonce = ${before?.nonce ?? new Uint8Array()}
    returning name`);
  return rows.length > 0;
}

async function readSealed(
  db: Database,
  { tenantId, name }: HubSecret,
): Promise<SealedSecret | null> {
  const rows = await db.within(db.read<Row[]>`
    select master_key_id, nonce, ciphertext from hub.secrets
    where tenant_id = ${tenantId} and name = ${name}`);
  const row = rows[0];
  return row === undefined ? null : {
    masterKeyId: row.master_key_id,
    nonce: new Uint8Array(row.nonce),
    ciphertext: new Uint8Array(row.ciphertext),
  };
}

function placeOf({ tenantId, name }: HubSecret) {
  return { tenantId, id: "hub", field: name };
}
