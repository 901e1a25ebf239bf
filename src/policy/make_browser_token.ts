import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import { MAX_CLIENT_ID_LENGTH } from "../core/limits.ts";
import type { ChatScope } from "../core/tool.ts";
import { MAX_TOKEN_SECONDS, writeBrowserToken } from "./browser_token.ts";
import { hasEnded, type KeyRecord } from "./key_record.ts";
import type { Pepper } from "./pepper.ts";

/** How long a browser token is valid where the request does not say, in seconds. */
export const DEFAULT_TOKEN_SECONDS = 600;
/** The shortest time that may be asked for, in seconds: replicas compare it with clocks of their own. */
export const MIN_TOKEN_SECONDS = 30;

/** What a browser token is made for. */
export interface TokenWish extends ChatScope {
  /** `DEFAULT_TOKEN_SECONDS` when left out. */
  seconds?: number | undefined;
}

/**
 * Makes a token with which a page may use one agent in one chat, on the account of the key that is given. Nothing is stored:
 * the token is signed, and each use of it looks the key up. It expires with the key at the latest. Throws `invalid_request`,
 * and `permission_denied` for a key that is no longer valid.
 */
export function makeBrowserToken(
  key: Pick<KeyRecord, "lookupId" | "expiresAt" | "revokedAt">,
  { agent, chatId, seconds = DEFAULT_TOKEN_SECONDS }: TokenWish,
  { pepper, clock }: { pepper: Pick<Pepper, "sign">; clock: Clock },
): { token: string; expiresAt: number } {
  if (
    !Number.isSafeInteger(seconds) || seconds < MIN_TOKEN_SECONDS || seconds > MAX_TOKEN_SECONDS
  ) {
    throw new HubError(
      "invalid_request",
      `A browser token is valid for ${MIN_TOKEN_SECONDS} to ${MAX_TOKEN_SECONDS} seconds, not for ${seconds}`,
      { param: "ttlSeconds" },
    );
  }
  if (chatId === "" || chatId.length > MAX_CLIENT_ID_LENGTH) {
    throw new HubError(
      "invalid_request",
      `The id of a chat has 1 to ${MAX_CLIENT_ID_LENGTH} characters, not ${chatId.length}`,
      { param: "chatId" },
    );
  }
  const nowMs = clock.now();
  if (hasEnded(key, nowMs)) {
    throw new HubError(
      "permission_denied",
      "An API key that was revoked or has expired cannot make browser tokens",
    );
  }
  const expiresAt = Math.min(nowMs + seconds * 1000, key.expiresAt ?? Number.MAX_SAFE_INTEGER);
  const claims = { lookupId: key.lookupId, agent, chatId, expiresAt };
  return { token: writeBrowserToken(claims, (payload) => pepper.sign(payload)), expiresAt };
}
