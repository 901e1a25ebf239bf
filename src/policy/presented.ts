import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import { accessOf, ownReach } from "../core/ownership.ts";
import type { ChatScope, Principal } from "../core/tool.ts";
import { lookupIdOf } from "./api_key.ts";
import { readClaims, splitBrowserToken, type UncheckedToken } from "./browser_token.ts";
import { hasEnded, type KeyRecord } from "./key_record.ts";

/** What checking a token against the row of its key needs. */
export interface PresentOptions {
  /** Whether the hash was made of the token; see `Pepper`. */
  isHashOf: (token: string, hash: Uint8Array) => boolean;
  /** Whether the signature is that of a browser token's payload; see `Pepper`. */
  isSignatureOf: (payload: string, signature: string) => boolean;
  clock: Clock;
}

/** The caller that a token lets in. */
export interface Admitted {
  principal: Principal;
  /** When the token expires, in milliseconds since the epoch; null for never. */
  expiresAt: number | null;
}

/** A token that came, once it is known which key it belongs to. */
export interface Presented {
  /** Finds the key's row. */
  lookupId: string;
  /** Throws `invalid_api_key` for a token that the key's row does not let in. */
  verify(record: KeyRecord): Admitted;
  /** Throws `invalid_api_key`: there is no such key. */
  refuse(): never;
}

/** Stands in for the hash of an unknown key: no token has this hash. */
const NO_HASH = new Uint8Array(32);

/** Reads a token: an API key, or a browser token, whose signature and time are checked here. Throws `invalid_api_key`. */
export function present(token: string, options: PresentOptions): Presented {
  const unchecked = splitBrowserToken(token);
  return unchecked === null ? presentKey(token, options) : presentBrowserToken(unchecked, options);
}

function presentKey(token: string, { isHashOf, clock }: PresentOptions): Presented {
  const lookupId = lookupIdOf(token);
  if (lookupId === null) throw invalidKey();
  return {
    lookupId,
    verify(record) {
      if (!isHashOf(token, record.hash) || hasEnded(record, clock.now())) throw invalidKey();
      return { principal: toPrincipal(record), expiresAt: record.expiresAt };
    },
    // After as much work as it takes to refuse one with a wrong secret.
    refuse() {
      isHashOf(token, NO_HASH);
      throw invalidKey();
    },
  };
}

function presentBrowserToken(
  { payload, signature }: UncheckedToken,
  { isSignatureOf, clock }: PresentOptions,
): Presented {
  const nowMs = clock.now();
  const claims = isSignatureOf(payload, signature) ? readClaims(payload, nowMs) : null;
  if (claims === null) throw invalidKey();
  const { lookupId, agent, chatId, expiresAt } = claims;
  if (expiresAt <= nowMs) throw expiredToken();
  return {
    lookupId,
    verify(record) {
      if (hasEnded(record, clock.now())) throw endedKey();
      return {
        principal: toScoped(record, { agent, chatId }),
        expiresAt: Math.min(expiresAt, record.expiresAt ?? expiresAt),
      };
    },
    refuse() {
      throw endedKey();
    },
  };
}

function toPrincipal(
  { tenantId, keyId, name, role, tags = [], owner, sessions, answers }: KeyRecord,
): Principal {
  return {
    ...{ tenantId, keyId, keyName: name, role },
    ...tags.length === 0 ? {} : { tags },
    ...owner ? { owner } : {},
    ...sessions === undefined ? {} : { sessions },
    ...answers === undefined ? {} : { answers },
  };
}

/**
 * The principal of a browser token: never an admin, and it reaches only what belongs to its key's owner. What it creates
 * belongs to the same owner as what its key creates.
 */
function toScoped(record: KeyRecord, scope: ChatScope): Principal {
  const principal = toPrincipal(record);
  const { sessions = "owner" } = ownReach(accessOf(principal));
  return { ...principal, role: "user", sessions, scope };
}

/** One text for every reason, so that an answer does not tell which part of a guess was right. */
function invalidKey(): HubError {
  return new HubError("invalid_api_key", "Incorrect API key provided");
}

/** Said only of tokens whose signature was right. */
function expiredToken(): HubError {
  return new HubError("invalid_api_key", "The browser token has expired: ask for a new one", {
    clientCode: "token_expired",
  });
}

function endedKey(): HubError {
  return new HubError(
    "invalid_api_key",
    "The API key that made this browser token is no longer valid",
  );
}
