import type { Clock } from "../core/clock.ts";

/** Gives a server so long to answer. */
export function connectDeadline(
  clock: Clock,
  { ms, ended }: { ms: number; ended: AbortSignal },
): { signal: AbortSignal; clear(): void } {
  const late = new AbortController();
  const onLate = () => late.abort(new Error(`it did not answer within ${ms} ms`));
  const timer = clock.setTimer(onLate, ms);
  return {
    signal: AbortSignal.any([late.signal, ended]),
    clear: () => clock.clearTimer(timer),
  };
}
