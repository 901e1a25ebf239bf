import { hash } from "node:crypto";
import { HubError } from "../core/error.ts";
import type { Principal } from "../core/tool.ts";
import type { KeyRecord } from "./key_record.ts";
import { type Admitted, present, type Presented, type PresentOptions } from "./presented.ts";

/** All keys known to this replica. Never changed in place: a new snapshot takes the place of the old one. */
export interface KeySnapshot {
  readonly byLookupId: ReadonlyMap<string, KeyRecord>;
}

declare const AUTHENTICATED: unique symbol;

/** A caller whose key was verified. Only `createAuthenticate` makes one; there is no default and no anonymous one. */
export type AuthenticatedPrincipal = Principal & { readonly [AUTHENTICATED]: true };

/**
 * Turns a token into a principal: at once when it is known, later when the database has to be asked. A browser token is one
 * only where `browserTokens` says so. Throws or rejects `invalid_api_key`, `permission_denied` for a browser token elsewhere,
 * or `database_unavailable` when only the database could tell.
 */
export type Authenticate = (
  token: string | null,
  options?: { browserTokens?: boolean },
) => AuthenticatedPrincipal | Promise<AuthenticatedPrincipal>;

/** What the check of keys needs. */
export interface AuthenticateOptions extends PresentOptions {
  /** The current snapshot; null as long as none could be loaded. */
  snapshot: () => KeySnapshot | null;
  /** Asks the database for a key that the snapshot does not know (made a moment ago on another replica). */
  lookup: (lookupId: string) => Promise<KeyRecord | null>;
  /** A token of this process alone, for whoever sits at the machine. */
  local?: { token: string; principal: Principal } | undefined;
}

interface Verified {
  principal: AuthenticatedPrincipal;
  untilMs: number;
}

/** A verified token is trusted this long without another look at the hash; a new snapshot ends it at once. */
const VERIFIED_TTL_MS = 30_000;
/** A lookup id that the database does not know is not asked for again within this time. */
const UNKNOWN_TTL_MS = 1000;
/** Lookups of unknown keys at one time: guesses with a right checksum must not take the database's connections. */
const MAX_ASKED = 64;
/** Bound of each cache; a full one is emptied, which costs one HMAC or one query per live key. */
const MAX_CACHED = 10_000;

/** Makes the check that every route but the public ones goes through. */
export function createAuthenticate(options: AuthenticateOptions): Authenticate {
  const { clock } = options;
  /** By SHA-256 of the whole token, so that no two tokens share an entry and no token is kept. */
  const verified = new Map<string, Verified>();
  const unknownUntilMs = new Map<string, number>();
  /** Read-throughs under way, by lookup id: a burst of requests with a new key asks once. */
  const asked = new Map<string, Promise<KeyRecord | null>>();
  let seen: KeySnapshot | null = null;
  const local = options.local === undefined ? null : {
    digest: hash("sha256", options.local.token),
    principal: Object.freeze({ ...options.local.principal }) as AuthenticatedPrincipal,
  };

  const admit = (digest: string, { principal, expiresAt }: Admitted) => {
    const untilMs = Math.min(clock.now() + VERIFIED_TTL_MS, expiresAt ?? Number.MAX_SAFE_INTEGER);
    // Only here is one made that counts.
    const authenticated = Object.freeze(principal) as AuthenticatedPrincipal;
    keep(verified, digest, { principal: authenticated, untilMs });
    return authenticated;
  };

  const readThrough = async ({ lookupId, verify, refuse }: Presented, digest: string) => {
    let asking = asked.get(lookupId);
    if (asking === undefined) {
      if (asked.size >= MAX_ASKED) {
        throw new HubError(
          "overloaded",
          `The API key cannot be checked: ${MAX_ASKED} unknown keys are being looked up already`,
          { retryAfterMs: 1000 },
        );
      }
      asking = options.lookup(lookupId);
      asked.set(lookupId, asking);
    }
    let record: KeyRecord | null;
    try {
      record = await asking;
    } catch (cause) {
      throw new HubError(
        "database_unavailable",
        "The API key cannot be checked: the database does not answer",
        { cause, retryAfterMs: 1000 },
      );
    } finally {
      asked.delete(lookupId);
    }
    // A snapshot that came meanwhile is newer than the row: it may hold the revocation.
    record = options.snapshot()?.byLookupId.get(lookupId) ?? record;
    if (record === null) {
      keep(unknownUntilMs, lookupId, clock.now() + UNKNOWN_TTL_MS);
      return refuse();
    }
    return admit(digest, verify(record));
  };

  const check = (token: string) => {
    const snapshot = options.snapshot();
    if (snapshot !== seen) {
      seen = snapshot;
      verified.clear();
      unknownUntilMs.clear();
    }
    const digest = hash("sha256", token);
    if (digest === local?.digest) return local.principal;
    const known = verified.get(digest);
    if (known !== undefined && clock.now() < known.untilMs) return known.principal;
    const presented = present(token, options);
    const { lookupId } = presented;
    const record = snapshot?.byLookupId.get(lookupId);
    if (record !== undefined) return admit(digest, presented.verify(record));
    if ((unknownUntilMs.get(lookupId) ?? 0) > clock.now()) return presented.refuse();
    return readThrough(presented, digest);
  };

  return (token, { browserTokens = false } = {}) => {
    if (token === null) throw missingKey();
    const enter = (principal: AuthenticatedPrincipal) => {
      if (principal.scope !== undefined && !browserTokens) throw notForTokens();
      return principal;
    };
    const principal = check(token);
    return principal instanceof Promise ? principal.then(enter) : enter(principal);
  };
}

/** The token of a request: `Authorization: Bearer` (RFC 6750), else `x-api-key` as Anthropic's clients send it. */
export function tokenFromHeaders(header: (name: string) => string | null): string | null {
  const authorization = header("authorization");
  if (authorization !== null) {
    if (authorization.slice(0, 7).toLowerCase() === "bearer ") {
      return authorization.slice(7).trim() || null;
    }
    throw new HubError(
      "invalid_api_key",
      "The Authorization header has an unknown scheme, wanted `Authorization: Bearer <key>`",
    );
  }
  return header("x-api-key")?.trim() || null;
}

function keep<V>(cache: Map<string, V>, key: string, value: V): void {
  if (cache.size >= MAX_CACHED) cache.clear();
  cache.set(key, value);
}

function missingKey(): HubError {
  return new HubError(
    "invalid_api_key",
    "You didn't provide an API key. Send it in an Authorization header: `Authorization: Bearer <key>`",
  );
}

/** The refusal of a browser token where only keys are taken. */
export function notForTokens(): HubError {
  return new HubError(
    "permission_denied",
    "A browser token is for its chat under /api/chat only: this route needs an API key",
    { clientCode: "browser_token" },
  );
}
