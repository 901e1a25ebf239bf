import type { IdSource } from "../core/id.ts";
import type { Database } from "../store/database.ts";
import { createKey, type StoredKey } from "../store/keys.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { hashApiKey, makeApiKey } from "./api_key.ts";

/** Makes and stores a key. `token` is nowhere else: whoever gets it must show it. */
export async function issueKey(
  db: Database,
  facts: Pick<StoredKey, "name" | "role">,
  parts: { ids: IdSource; randomBytes: (length: number) => Uint8Array; pepper: Uint8Array },
): Promise<{ keyId: string; token: string }> {
  const { token, lookupId } = makeApiKey(parts.randomBytes);
  const keyId = parts.ids.next("key");
  const hash = hashApiKey(token, parts.pepper);
  await createKey(db, { ...facts, tenantId: DEFAULT_TENANT_ID, keyId, lookupId, hash });
  return { keyId, token };
}
