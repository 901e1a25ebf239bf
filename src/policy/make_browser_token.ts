import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import { MAX_CLIENT_ID_LENGTH } from "../core/limits.ts";
import type { ChatScope } from "../core/tool.ts";
import { MAX_TOKEN_SECONDS, writeBrowserToken } from "./browser_token.ts";
import type { KeyPolicy } from "./key_policy.ts";
import { hasEnded, type KeyRecord } from "./key_record.ts";
import { assertAgent } from "./may_call.ts";
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
 * the token is signed, and each use of it looks the key up. It expires with the key at the latest. Throws `permission_denied`
 * for an agent that the key may not run and for a key that is no longer valid, `not_found` for an agent that is not
 * configured, and `invalid_request`.
 */
export function makeBrowserToken(
  key: Pick<KeyRecord, "lookupId" | "expiresAt" | "revokedAt">,
  { agent, chatId, seconds = DEFAULT_TOKEN_SECONDS }: TokenWish,
  { policy, agents, pepper, clock }: {
    /** The key's own. */
    policy: KeyPolicy;
    /** Those that are configured now, by name. */
    agents: Readonly<Record<string, unknown>>;
    pepper: Pick<Pepper, "sign">;
    clock: Clock;
  },
): { token: string; expiresAt: number } {
  assertAgent(policy, agent);
  if (!Object.hasOwn(agents, agent)) {
    throw new HubError("not_found", `There is no agent ${JSON.stringify(agent.slice(0, 64))}`, {
      clientCode: "agent_not_found",
      param: "agent",
    });
  }
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
