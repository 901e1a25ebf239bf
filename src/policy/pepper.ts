import type { Database } from "../store/database.ts";
import { readHubSecret, resealHubSecret } from "../store/hub_secrets.ts";
import type { MasterKey } from "../store/master_key.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { derivePepper } from "./api_key.ts";

const PLACE = { tenantId: DEFAULT_TENANT_ID, name: "api_key_pepper" };

/**
 * The secret that hashes of API keys are made with: the stored one, else what the first master key gives. It stays the
 * same when the master key changes, so that API keys do.
 */
export async function loadPepper(db: Database, key: MasterKey): Promise<Uint8Array> {
  const stored = await readHubSecret(db, { ...PLACE, key });
  return stored === null ? firstPepper(key) : Uint8Array.fromHex(stored);
}

/** Stores it under the newest master key, if there is more than one or it was stored before; true when that was done now. */
export async function resealPepper(db: Database, key: MasterKey): Promise<boolean> {
  if (key.former === undefined && await readHubSecret(db, { ...PLACE, key }) === null) return false;
  return await resealHubSecret(db, { ...PLACE, value: firstPepper(key).toHex(), key });
}

function firstPepper(key: MasterKey): Uint8Array {
  return derivePepper((key.former?.at(-1) ?? key).bytes);
}
