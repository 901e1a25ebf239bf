import type { AbortLike } from "./abort.ts";
/** Handle of a pending timer; opaque outside the clock that made it. */
export type Timer = unknown;

/** Time as an argument, so that tests own it. The real one is made in `cli/system.ts`. */
export interface Clock {
  /** Wall clock in milliseconds since the epoch. */
  now(): number;
  /** Milliseconds that never run backwards; only differences mean something. */
  monotonic(): number;
  /** `monotonic()` as it was at most a millisecond ago, at a fraction of the cost; for deadlines and rounded durations. */
  coarse(): number;
  /** Calls `callback` once after `delayMs`. */
  setTimer(callback: () => void, delayMs: number): Timer;
  /** Forgets a timer; unknown and fired ones are ignored. */
  clearTimer(timer: Timer): void;
}

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortLike): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clock.clearTimer(timer);
      reject(signal?.reason);
    };
    const timer = clock.setTimer(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, delayMs);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Waits for `work`, but no longer than `limitMs`; false when it was not done by then. Rejects when it does. */
export async function doneWithin(
  clock: Clock,
  limitMs: number,
  work: Promise<unknown>,
): Promise<boolean> {
  const late = new AbortController();
  const timeout = sleep(clock, limitMs, late.signal).then(() => false, () => false);
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    late.abort();
  }
}
