import { HubError } from "../core/error.ts";

const MINUTE_MS = 60_000;

/** A minute of UTC. */
export interface Minute {
  /** `2026-11-21T10:07`. */
  id: string;
  /** Milliseconds until it is over. */
  leftMs: number;
}

/** What is known of a key's minute. */
interface RateFacts {
  maxRequests: number | null;
  maxTokens: number | null;
  requests: number;
  tokens: number;
  minute: Minute;
}

/** The minute of a moment. */
export function minuteOf(nowMs: number): Minute {
  return {
    id: new Date(nowMs).toISOString().slice(0, 16),
    leftMs: MINUTE_MS - nowMs % MINUTE_MS,
  };
}

/** `x-ratelimit-*` as OpenAI's clients read them. */
export function rateHeaders(facts: RateFacts): Record<string, string> {
  const reset = `${Math.ceil(facts.minute.leftMs / 1000)}s`;
  const fields = (what: string, max: number | null, used: number) =>
    max === null ? {} : {
      [`x-ratelimit-limit-${what}`]: String(max),
      [`x-ratelimit-remaining-${what}`]: String(Math.max(0, max - used)),
      [`x-ratelimit-reset-${what}`]: reset,
    };
  return {
    ...fields("requests", facts.maxRequests, facts.requests),
    ...fields("tokens", facts.maxTokens, facts.tokens),
  };
}

/** The refusal of a call for which the minute has no room; `wanted` is what it would have taken. */
export function rateRefusal(
  keyId: string,
  facts: RateFacts & { wanted: number },
): HubError {
  const { maxRequests, maxTokens, requests, tokens, wanted, minute } = facts;
  const full = maxRequests !== null && requests >= maxRequests;
  const message = full
    ? `The API key ${keyId} has made ${maxRequests} model calls in this minute, which is its limit`
    : `The API key ${keyId} may use ${maxTokens} tokens a minute: ${tokens} are used or reserved, and this call may take ${wanted}`;
  return new HubError("rate_limit_exceeded", message, {
    retryAfterMs: minute.leftMs,
    headers: rateHeaders(facts),
  });
}
