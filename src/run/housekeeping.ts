import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { pruneAnswers } from "../store/idempotency.ts";
import { pruneEvents } from "../store/runs.ts";
import { takeOverAbandoned, type TakeOverOptions } from "./take_over.ts";

const HOUR_MS = 3_600_000;

/** How soon at most a run whose lease has run out is claimed. */
const MAX_CLAIM_MS = 5000;

/** Takes abandoned runs over, prunes event logs and kept answers every hour. Gives the function that ends it. */
export function startHousekeeping(
  options: {
    db: Database;
    clock: Clock;
    log: Log;
    takeOver: TakeOverOptions;
    leaseMs: number;
    retentionHours: number;
  },
): () => void {
  const { db, clock, log } = options;
  const stops: (() => void)[] = [];
  const every = (ms: number, name: string, work: () => Promise<unknown>) => {
    let closed = false;
    let timer: unknown;
    const tick = async () => {
      try {
        await work();
      } catch (error) {
        log.warn(`${name} failed`, { error });
      }
      if (!closed) timer = clock.setTimer(tick, ms);
    };
    void tick();
    stops.push(() => {
      closed = true;
      clock.clearTimer(timer);
    });
  };
  const claimMs = Math.min(MAX_CLAIM_MS, options.leaseMs / 3);
  every(claimMs, "Taking runs over", () => takeOverAbandoned(options.takeOver));
  every(HOUR_MS, "Pruning event logs", () => pruneEvents(db, options.retentionHours));
  every(HOUR_MS, "Pruning kept answers", () => pruneAnswers(db));
  return () => stops.forEach((stop) => stop());
}
