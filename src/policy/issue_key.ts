import { fromUuid, type Id } from "../core/id.ts";
import { type Database, isUniqueViolation } from "../store/database.ts";
import { createKey, listKeys, type StoredKey } from "../store/keys.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import { hashApiKey, makeApiKey } from "./api_key.ts";
import type { Pepper } from "./pepper.ts";

interface KeyParts {
  ids: { next(prefix: "key"): Id<"key"> };
  randomBytes: (length: number) => Uint8Array;
  pepper: Uint8Array;
}

/** Id of every first key: of several starts at once the database takes that of one. */
const FIRST_KEY_ID = fromUuid("key", "00000000-0000-7000-8000-000000000001");

/** Makes an admin key when there is none at all, revoked ones included; else gives null, also to all but one of several starts at once. */
export async function issueFirstKey(
  db: Database,
  parts: Omit<KeyParts, "pepper"> & { pepper: Pepper },
): Promise<string | null> {
  if ((await listKeys(db)).length > 0) return null;
  parts.pepper.choose();
  const { value: pepper } = parts.pepper;
  const ids = { next: () => FIRST_KEY_ID };
  try {
    const first = { name: "first", role: "admin" } as const;
    const { token } = await issueKey(db, first, { ...parts, ids, pepper });
    await parts.pepper.store();
    return token;
  } catch (error) {
    if (isUniqueViolation(error)) return null;
    throw error;
  }
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
