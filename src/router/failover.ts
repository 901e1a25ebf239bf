import type { HubError } from "../core/error.ts";
import type { Target } from "../providers/target.ts";
import type { Attempt } from "./attempt.ts";
import type { Balancer, Routed } from "./balancer.ts";
import type { HedgeBudget } from "./hedge_budget.ts";
import type { TargetGates } from "./target_gates.ts";
import type { TargetHealth } from "./target_health.ts";

const MAX_RETRY_AFTER_MS = 60_000;
const BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 8_000;
/** How long a key of a pool rests that its provider refused, or limited without saying for how long. */
const REFUSED_KEY_MS = 60_000;
const LIMITED_KEY_MS = 5_000;

/** How far one request has come on its way through its targets. */
export interface Journey {
  readonly request: Routed;
  /** In the order of this request. */
  readonly targets: readonly Target[];
  /** Targets and keys of which this request is the probe. */
  probes: Set<string> | null;
  /** Targets that were asked beside another. */
  spent: Set<string> | null;
  /** The last try failed by its key, so that the target's next one may do. */
  keyFailed: boolean;
  /** Tries of targets whose dialect cannot carry the request, and what the first of them said. */
  refusals: number;
  refusal: HubError | null;
}

/**
 * The targets that do not rest, each asked when its turn has come: who asks may become a target's probe, and must then
 * try it. Of a target with several keys the next key comes when one was refused. When all rest, the one whose rest ends
 * first is tried all the same.
 */
export function* candidates(
  journey: Journey,
  { health, balancer }: { health: TargetHealth; balancer: Balancer },
): Generator<Target> {
  const { targets, request } = journey;
  let yielded = 0;
  for (const target of targets) {
    if (journey.spent?.has(target.id)) continue;
    if (target.lanes === undefined) {
      if (!claim(target, health, journey)) continue;
      yielded++;
      yield target;
      continue;
    }
    const resting: Target[] = [];
    for (const lane of target.inOrder ? target.lanes : balancer.lanes(target.lanes, request)) {
      if (!claim(lane, health, journey)) {
        if (target.inOrder && !health.rests(target.id)) resting.push(lane);
        continue;
      }
      yielded++;
      journey.keyFailed = false;
      yield lane;
      if (!journey.keyFailed) break;
    }
    // The key that was refused a while ago may be the one that holds by now.
    if (journey.keyFailed) yield* resting;
  }
  if (yielded > journey.refusals) return;
  const last = firstBack(targets, health);
  if (last !== null) yield last;
}

/** True when the target, and the key of this lane, may be tried. */
export function claim(target: Target, health: TargetHealth, journey: Journey): boolean {
  if (!take(target.id, health, journey)) return false;
  const { key } = target;
  if (key === undefined) return true;
  if (take(key.id, health, journey) && take(key.atModel, health, journey)) return true;
  release(target, health, journey);
  return false;
}

/** The target answers. */
export function passed(target: Target, health: TargetHealth, journey: Journey): void {
  const { key } = target;
  health.succeeded(target.id);
  journey.probes?.delete(target.id);
  if (key === undefined) return;
  for (const id of [key.id, key.atModel]) {
    health.succeeded(id);
    journey.probes?.delete(id);
  }
}

/** The target was not tried, or it ended without a verdict: whatever this request was to probe, the next one may. */
export function release(target: Target, health: TargetHealth, journey: Journey): void {
  if (journey.probes === null) return;
  for (const id of idsOf(target)) if (journey.probes.delete(id)) health.released(id);
}

/** The target failed; a refusal or a limit of one key of several is the key's alone. */
export function failed(
  target: Target,
  { failure, health, journey }: { failure: HubError; health: TargetHealth; journey: Journey },
): void {
  const { id, key } = target;
  const limitedMs = failure.code === "upstream_rate_limited"
    ? Math.min(MAX_RETRY_AFTER_MS, failure.retryAfterMs ?? LIMITED_KEY_MS)
    : null;
  if (key !== undefined && isOfKey(failure)) {
    journey.keyFailed = true;
    const [resting, forMs] = limitedMs === null
      ? [key.id, REFUSED_KEY_MS]
      : [key.atModel, limitedMs];
    health.rest(resting, forMs, journey.probes?.delete(resting) ?? false);
  } else {
    const ofProbe = journey.probes?.delete(id) ?? false;
    if (limitedMs !== null && failure.retryAfterMs !== undefined) {
      health.rest(id, limitedMs, ofProbe);
    } else health.failed(id, ofProbe);
  }
  release(target, health, journey);
}

/** The first of these targets that is free, with its place and paid for; null when there is none. */
export function pickBeside(
  others: readonly Target[],
  { health, balancer, journey, gates, budget }: {
    health: TargetHealth;
    balancer: Balancer;
    journey: Journey;
    gates: TargetGates;
    budget: HedgeBudget;
  },
): Target | null {
  for (const other of others) {
    const lanes = other.lanes === undefined || other.inOrder
      ? other.lanes ?? [other]
      : balancer.lanes(other.lanes, journey.request);
    const lane = lanes.find((lane) => claim(lane, health, journey));
    if (lane === undefined) continue;
    if (gates.tryEnter(lane)) {
      if (budget.spend()) {
        (journey.spent ??= new Set()).add(lane.id);
        return lane;
      }
      gates.leave(lane);
    }
    release(lane, health, journey);
  }
  return null;
}

/** True for a request that was not sent, as the target's dialect cannot carry it: another one's may. */
export function isDialectRefusal({ code }: HubError, { reached }: Attempt): boolean {
  return code === "invalid_request" && !reached;
}

/** Notes a refusal of the target's dialect, which is the answer when no target can carry the request. */
export function refused(failure: HubError, journey: Journey): null {
  journey.refusals++;
  journey.refusal ??= failure;
  return null;
}

/** True when nobody waits to try the target again, as another one is free: it rests now, or its key does. */
export function isPassedOver(
  target: Target,
  { failure, health, journey }: { failure: HubError; health: TargetHealth; journey: Journey },
): boolean {
  return (isOfKey(failure) || health.rests(target.id)) && hasOther(target, journey, health);
}

/** True when another key of the same provider may do better. */
function isOfKey({ code }: HubError): boolean {
  return code === "upstream_unauthorized" || code === "upstream_rate_limited" ||
    code === "upstream_quota_exceeded";
}

/** True when a target behind this one, or another key of it, does not rest: then nobody waits for this one. */
function hasOther(
  target: Target,
  { targets }: Journey,
  health: TargetHealth,
): boolean {
  const at = targets.findIndex(({ id }) => id === target.id);
  const lanes = targets[at]?.lanes ?? [];
  return targets.some((other, index) => index > at && isFree(other, health)) ||
    lanes.some((lane) => lane !== target && isFree(lane, health));
}

/** True when another target may do better: anything but a refusal of the request itself. */
export function mayFailOver(failure: HubError): boolean {
  return failure.kind.retryable || isOfKey(failure);
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

function take(id: string, health: TargetHealth, journey: Journey): boolean {
  const asked = health.ask(id);
  if (asked === "probe") (journey.probes ??= new Set()).add(id);
  return asked !== "rests";
}

/** The target or lane whose rest ends first; of those that rest equally long, the first one. */
function firstBack(targets: readonly Target[], health: TargetHealth): Target | null {
  let first: Target | null = null;
  let firstMs = Infinity;
  for (const lane of targets.flatMap((target) => target.lanes ?? [target])) {
    const untilMs = restsUntil(lane, health);
    // What does not rest was tried, and cannot carry the request.
    if (untilMs === 0 || untilMs >= firstMs) continue;
    first = lane;
    firstMs = untilMs;
  }
  return first;
}

function isFree(target: Target, health: TargetHealth): boolean {
  if (target.lanes !== undefined) return target.lanes.some((lane) => isFree(lane, health));
  return !idsOf(target).some((id) => health.rests(id));
}

function restsUntil(target: Target, health: TargetHealth): number {
  const { id, key } = target;
  const ownMs = health.restsUntil(id);
  if (key === undefined) return ownMs;
  return Math.max(ownMs, health.restsUntil(key.id), health.restsUntil(key.atModel));
}

/** The names under which the health of a target and of its key is kept. */
function idsOf({ id, key }: Target): string[] {
  return key === undefined ? [id] : [id, key.id, key.atModel];
}
