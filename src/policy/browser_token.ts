import { createHmac, hkdfSync } from "node:crypto";
import { Type } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import type { ChatScope } from "../core/tool.ts";
import { isSameSecret } from "./api_key.ts";

/** The longest time for which a browser token holds, in seconds. */
export const MAX_TOKEN_SECONDS = 3600;

/** What a browser token says, once its signature was checked. */
export interface BrowserClaims extends ChatScope {
  /** Finds the key that made it, and only as long as that key's own token holds. */
  lookupId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** A browser token as it came, not checked yet. */
export interface UncheckedToken {
  payload: string;
  signature: string;
}

/** All characters are such that `telemetry/secret_shapes.ts` finds the whole token by its `lh_`. */
const FORM = /^lh_bt_([A-Za-z0-9_-]+)([A-Za-z0-9_-]{43})$/;
/** More than the longest chat id makes. */
const MAX_LENGTH = 4096;
/** The clocks of replicas differ by less. What expires later than a token could was made by a clock that was wrong. */
const MAX_SKEW_MS = 300_000;
const BASE64URL = { alphabet: "base64url", omitPadding: true } as const;

const Payload = TypeCompiler.Compile(Type.Tuple([
  Type.Literal(1),
  Type.String({ pattern: "^[0-9a-f]{16}$" }),
  Type.String(),
  Type.String(),
  Type.Integer(),
]));

/** A token of these claims, whose parts were checked. */
export function writeBrowserToken(
  { lookupId, agent, chatId, expiresAt }: BrowserClaims,
  sign: (payload: string) => string,
): string {
  const claims = JSON.stringify([1, lookupId, agent, chatId, expiresAt]);
  const payload = new TextEncoder().encode(claims).toBase64(BASE64URL);
  return `lh_bt_${payload}${sign(payload)}`;
}

/** The parts of a text that has the form of a browser token, else null. */
export function splitBrowserToken(token: string): UncheckedToken | null {
  if (token.length > MAX_LENGTH) return null;
  const [, payload, signature] = FORM.exec(token) ?? [];
  return payload === undefined || signature === undefined ? null : { payload, signature };
}

/** What a token says whose signature was checked; null for one that no hub of this version makes. */
export function readClaims(payload: string, nowMs: number): BrowserClaims | null {
  let claims: unknown;
  try {
    claims = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(payload, BASE64URL)));
  } catch {
    return null;
  }
  if (!Payload.Check(claims)) return null;
  const [, lookupId, agent, chatId, expiresAt] = claims;
  if (expiresAt > nowMs + MAX_TOKEN_SECONDS * 1000 + MAX_SKEW_MS) return null;
  return { lookupId, agent, chatId, expiresAt };
}

/** HMAC-SHA-256 of a payload under a key of its own, derived (RFC 5869) from the pepper of API keys; 43 characters. */
export function signPayload(payload: string, pepper: Uint8Array): string {
  const key = hkdfSync("sha256", pepper, "", "loophub browser token v1", 32);
  return createHmac("sha256", new Uint8Array(key)).update(payload).digest("base64url");
}

/** Whether this is the payload's signature; takes equally long for every wrong one. */
export function isSignatureOf(payload: string, signature: string, pepper: Uint8Array): boolean {
  const encoder = new TextEncoder();
  return isSameSecret(encoder.encode(signPayload(payload, pepper)), encoder.encode(signature));
}
