import type { Clock, Timer } from "../core/clock.ts";

/** The process's own time. */
export const systemClock: Clock = createSystemClock();

/**
 * What a timer will call. A timer of the runtime lives until the next full collection, also when it was cleared or has
 * fired; what it called must not.
 */
interface Bell {
  ring: (() => void) | null;
  timeout: ReturnType<typeof setTimeout> | null;
}

function createSystemClock(): Clock {
  let date = 0;
  let coarse = 0;
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    coarse() {
      const now = Date.now();
      if (now !== date) {
        date = now;
        coarse = performance.now();
      }
      return coarse;
    },
    setTimer(callback, delayMs): Timer {
      const bell: Bell = { ring: callback, timeout: null };
      bell.timeout = setTimeout(fire, delayMs, bell);
      return bell;
    },
    clearTimer(timer) {
      const bell = timer as Bell | null | undefined;
      if (!bell) return;
      bell.ring = null;
      if (bell.timeout !== null) clearTimeout(bell.timeout);
    },
  };
}

function fire(bell: Bell): void {
  const { ring } = bell;
  bell.ring = null;
  ring?.();
}
