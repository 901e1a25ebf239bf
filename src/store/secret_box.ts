import { HubError } from "../core/error.ts";
import type { MasterKey } from "./master_key.ts";

/** An encrypted secret: AES-256-GCM with a random 96-bit nonce. */
export interface SealedSecret {
  masterKeyId: string;
  nonce: Uint8Array<ArrayBuffer>;
  ciphertext: Uint8Array<ArrayBuffer>;
}

/** Where a secret stands; it opens only there, so rows cannot be swapped. */
export interface SecretPlace {
  tenantId: string;
  id: string;
  field: string;
}

/** Encrypts a secret for its place. */
export async function sealSecret(
  secret: string,
  { key, place }: { key: MasterKey; place: SecretPlace },
): Promise<SealedSecret> {
  const nonce = crypto.getRandomValues(new Uint8Array(12));
  const sealed = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv: nonce, additionalData: aadOf(place) },
    await importKey(key),
    new TextEncoder().encode(secret),
  );
  return { masterKeyId: key.id, nonce, ciphertext: new Uint8Array(sealed) };
}

/** Decrypts it. Throws `invalid_configuration` for another master key, another place or changed bytes. */
export async function openSecret(
  sealed: SealedSecret,
  { key, place }: { key: MasterKey; place: SecretPlace },
): Promise<string> {
  const keys = [key, ...key.former ?? []];
  const opener = keys.find(({ id }) => id === sealed.masterKeyId);
  if (opener === undefined) {
    throw new HubError(
      "invalid_configuration",
      `A secret was sealed with master key ${sealed.masterKeyId}, but the hub has ${
        keys.map(({ id }) => id).join(", ")
      }`,
    );
  }
  try {
    const opened = await crypto.subtle.decrypt(
      { name: "AES-GCM", iv: sealed.nonce, additionalData: aadOf(place) },
      await importKey(opener),
      sealed.ciphertext,
    );
    return new TextDecoder().decode(opened);
  } catch (error) {
    throw new HubError("invalid_configuration", "A stored secret is not what was sealed", {
      cause: error,
    });
  }
}

function importKey(key: MasterKey): Promise<CryptoKey> {
  const raw = new Uint8Array(key.bytes);
  return crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt", "decrypt"]);
}

function aadOf({ tenantId, id, field }: SecretPlace): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify([tenantId, id, field]));
}
