import type { AbortLike } from "../core/abort.ts";
import { type Clock, sleep } from "../core/clock.ts";
import { type ErrorCode, HubError } from "../core/error.ts";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

const AWAY: readonly ErrorCode[] = ["database_unavailable"];

/**
 * Asks again as long as Postgres is away, or the error is another that passes, so that a run waits for what it has to know
 * rather than go on without it. Rejects with any other error, and with the signal's reason once that aborts, which it does
 * at the latest when the lease is lost.
 */
export async function untilAnswered<T>(
  ask: () => Promise<T>,
  { clock, signal, passing = AWAY }: {
    clock: Clock;
    signal: AbortLike;
    passing?: readonly ErrorCode[];
  },
): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS;; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof HubError) || !passing.includes(error.code)) throw error;
      await sleep(clock, pauseMs, signal);
    }
  }
}
