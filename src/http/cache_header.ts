import { HubError } from "../core/error.ts";
import { MAX_CACHE_SECONDS } from "../core/limits.ts";
import type { Call } from "./call.ts";

/** Asks for the cache, and says what came of it. */
export const CACHE_HEADER = "x-loophub-cache";

/** How the header is described to those who read `/openapi.json`. */
export const CACHE_FIELDS: Readonly<Record<string, string>> = Object.freeze({
  [CACHE_HEADER]:
    "How many seconds an answer to the same request may be old, and is kept; `off`: not from the cache",
});

/** The seconds that a request asks for, 0 for `off`, null when it does not say. Throws `invalid_request`. */
export function readCacheSeconds({ request }: Pick<Call, "request">): number | null {
  const text = request.header(CACHE_HEADER);
  if (text === null) return null;
  if (request.isRepeated(CACHE_HEADER)) throw invalid("came more than once");
  if (text === "off") return 0;
  const seconds = /^\d{1,7}$/.test(text) ? Number(text) : Infinity;
  if (seconds <= MAX_CACHE_SECONDS) return seconds;
  throw invalid(`wants whole seconds up to ${MAX_CACHE_SECONDS}, or off`);
}

function invalid(problem: string): HubError {
  return new HubError("invalid_request", `The ${CACHE_HEADER} header ${problem}`, {
    param: CACHE_HEADER,
  });
}
