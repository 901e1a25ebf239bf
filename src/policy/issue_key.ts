import type { IdSource } from "../core/id.ts";
import type { Database } from "../store/database.ts";
import { createKey, listKeys, type StoredKey } from "../store/keys.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { hashApiKey, makeApiKey } from "./api_key.ts";
import type { Pepper } from "./pepper.ts";

interface KeyParts {
  ids: IdSource;
  randomBytes: (length: number) => Uint8Array;
  pepper: Uint8Array;
}

/** Makes an admin key when there is none at all, revoked ones included; else gives null. */
export async function issueFirstKey(
  db: Database,
  parts: Omit<KeyParts, "pepper"> & { pepper: Pepper },
): Promise<string | null> {
  if ((await listKeys(db)).length > 0) return null;
  parts.pepper.choose();
  const { value: pepper } = parts.pepper;
  const { token } = await issueKey(db, { name: "first", role: "admin" }, { ...parts, pepper });
  await parts.pepper.store();
  return token;
}

/** Makes and stores a key. `token` is nowhere else: whoever gets it must show it. */
export async function issueKey(
  db: Database,
  facts: Pick<StoredKey, "name" | "role">,
  parts: KeyParts,
): Promise<{ keyId: string; token: string }> {
  const { token, lookupId } = makeApiKey(parts.randomBytes);
  const keyId = parts.ids.next("key");
  const hash = hashApiKey(token, parts.pepper);
  await createKey(db, { ...facts, tenantId: DEFAULT_TENANT_ID, keyId, lookupId, hash });
  return { keyId, token };
}
