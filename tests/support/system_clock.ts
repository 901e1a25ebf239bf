import type { Clock } from "../../src/core/clock.ts";

/** Real time, for tests that talk to real processes. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  coarse: () => performance.now(),
  setTimer: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimer: (timer) => clearTimeout(timer as number),
};
