import { Buffer } from "node:buffer";
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import { API_KEY_FORM } from "../core/api_key_form.ts";

/** A key as it is handed out. Only `lookupId` and the hash of `token` are ever stored. */
export interface ApiKey {
  /** The whole key, shown once. */
  token: string;
  /** 16 hex digits by which the key's row is found; no secret. */
  lookupId: string;
}

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** 43 base62 digits carry 256 bits. */
const SECRET_LENGTH = 43;
/** Six base62 digits hold every CRC-32. */
const CHECKSUM_LENGTH = 6;
/** Largest multiple of 62 in a byte: higher bytes are dropped, so that every digit is equally likely. */
const UNBIASED = 248;

/**
 * Makes a key `lh_<16 hex>_<43 base62><6 base62>`: the place of its row, the secret, and the CRC-32 of all before it,
 * with which mistyped keys and false alarms of secret scanners are told apart without a database.
 */
export function makeApiKey(randomBytes: (length: number) => Uint8Array): ApiKey {
  const lookupId = Buffer.from(randomBytes(8)).toString("hex");
  let secret = "";
  while (secret.length < SECRET_LENGTH) {
    for (const byte of randomBytes(64)) {
      if (byte < UNBIASED && secret.length < SECRET_LENGTH) secret += DIGITS[byte % 62] ?? "";
    }
  }
  const body = `lh_${lookupId}_${secret}`;
  return { token: body + checksum(body), lookupId };
}

/** The lookup id of a text that has the form and the checksum of a key, else null. */
export function lookupIdOf(token: string): string | null {
  const lookupId = API_KEY_FORM.exec(token)?.[1];
  if (lookupId === undefined) return null;
  const body = token.slice(0, -CHECKSUM_LENGTH);
  return checksum(body) === token.slice(-CHECKSUM_LENGTH) ? lookupId : null;
}

/** The secret that hashes of keys are made with: HKDF-SHA-256 (RFC 5869) of the master key, 32 bytes. */
export function derivePepper(masterKey: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", masterKey, "", "loophub api key pepper v1", 32));
}

/** What is stored of a key: HMAC-SHA-256 of the whole token under the pepper, 32 bytes. */
export function hashApiKey(token: string, pepper: Uint8Array): Uint8Array {
  return createHmac("sha256", pepper).update(token).digest();
}

/** Whether this is what is stored of a key; takes equally long for every hash. */
export function isHashOf(token: string, hash: Uint8Array, pepper: Uint8Array): boolean {
  return isSameSecret(hashApiKey(token, pepper), hash);
}

/** Whether bytes are the same; takes equally long for all of one length. */
export function isSameSecret(own: Uint8Array, given: Uint8Array): boolean {
  return own.length === given.length && timingSafeEqual(own, given);
}

function checksum(text: string): string {
  let value = crc32(text);
  let digits = "";
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = (DIGITS[value % 62] ?? "") + digits;
    value = Math.floor(value / 62);
  }
  return digits;
}
