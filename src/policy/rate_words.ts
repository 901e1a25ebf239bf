import { HubError } from "../core/error.ts";
import { endOfSlice, type RateSlices, startOfMinute } from "../store/rates.ts";

/** What is known of a key's last minute. */
interface RateFacts {
  maxRequests: number | null;
  maxTokens: number | null;
  requests: number;
  tokens: number;
  /** The newest slice. */
  slice: number;
  nowMs: number;
}

/** `x-ratelimit-*` as OpenAI's clients read them. */
export function rateHeaders(facts: RateFacts): Record<string, string> {
  const reset = `${Math.ceil((endOfSlice(facts.slice) - facts.nowMs) / 1000)}s`;
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

/** The refusal of a call for which the last minute has no room; `wanted` is what it would have taken. */
export function rateRefusal(
  keyId: string,
  facts: RateFacts & { slices: RateSlices | null; wanted: number },
): HubError {
  const { maxRequests, maxTokens, requests, tokens, wanted, nowMs } = facts;
  const full = maxRequests !== null && requests >= maxRequests;
  const message = full
    ? `The API key ${keyId} has made ${maxRequests} model calls in the last minute, which is its limit`
    : `The API key ${keyId} may use ${maxTokens} tokens a minute: ${tokens} are used or reserved, and this call may take ${wanted}`;
  return new HubError("rate_limit_exceeded", message, {
    retryAfterMs: roomAt(facts) - nowMs,
    headers: rateHeaders(facts),
  });
}

/** When so many slices are over that the call has room, if no others come. */
function roomAt(
  { maxRequests, maxTokens, requests, tokens, wanted, slice, slices }: Parameters<
    typeof rateRefusal
  >[1],
): number {
  const since = startOfMinute(slice);
  for (const [number, [some, size]] of Object.entries(slices ?? {}).sort(byNumber)) {
    if (Number(number) < since) continue;
    requests -= some;
    tokens -= size;
    const fits = requests < (maxRequests ?? Infinity) && tokens + wanted <= (maxTokens ?? Infinity);
    if (fits) return endOfSlice(Number(number));
  }
  return endOfSlice(slice);
}

const byNumber = ([a]: [string, unknown], [b]: [string, unknown]) => Number(a) - Number(b);
