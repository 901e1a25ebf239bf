import type { HubError } from "../core/error.ts";
import type { Target } from "../providers/target.ts";
import type { Attempt } from "./attempt.ts";
import type { TargetHealth } from "./target_health.ts";

const MAX_RETRY_AFTER_MS = 60_000;
const BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 8_000;

/**
 * The targets that do not rest, each asked when its turn has come: who asks may become a target's probe, and must then
 * try it. When all rest, the first one is tried all the same.
 */
export function* candidates(targets: readonly Target[], health: TargetHealth): Generator<Target> {
  let some = false;
  for (const target of targets) {
    if (!health.allows(target.id)) continue;
    some = true;
    yield target;
  }
  const [first] = targets;
  if (!some && first !== undefined) yield first;
}

/** True when another target may do better: anything but a refusal of the request itself. */
export function mayFailOver(failure: HubError): boolean {
  return failure.kind.retryable || failure.code === "upstream_unauthorized";
}

/**
 * Time until the same target is worth another try, in milliseconds: full jitter, or what the provider asks for. Null when
 * it is not, or when that is too long to keep a client waiting.
 */
export function retryDelayMs(
  failure: HubError,
  { retry, attempt, random }: { retry: number; attempt: Attempt; random: () => number },
): number | null {
  if (!failure.kind.retryable || retry >= attempt.target.maxRetries) return null;
  // A provider that got the request and was too slow has worked, and bills it.
  if (failure.code === "upstream_timeout" && attempt.reached) return null;
  if (failure.retryAfterMs === undefined) {
    return Math.round(random() * Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** retry));
  }
  return failure.retryAfterMs <= MAX_RETRY_AFTER_MS ? failure.retryAfterMs : null;
}
