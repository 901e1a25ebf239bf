import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { pruneEvents } from "../store/runs.ts";
import { endAbandoned } from "./end_abandoned.ts";

const HOUR_MS = 3_600_000;

/** Ends abandoned runs every lease, prunes event logs every hour. Gives the function that ends it. */
export function startHousekeeping(
  options: {
    db: Database;
    clock: Clock;
    log: Log;
    owner: string;
    leaseMs: number;
    retentionHours: number;
    onCommitted?(runId: string): void;
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
  every(options.leaseMs, "Ending abandoned runs", () => endAbandoned(db, options));
  every(HOUR_MS, "Pruning event logs", () => pruneEvents(db, options.retentionHours));
  return () => stops.forEach((stop) => stop());
}
