import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { insertUsage, type UsageRow } from "../store/usage_rows.ts";

/** What the spool needs. */
export interface UsageSpoolOptions {
  db: Database;
  clock: Clock;
  log: Log;
  flushMs?: number;
  /** Rows kept while Postgres is away; past it the oldest are dropped, counted and logged. */
  maxRows?: number;
  onDepth?(rows: number): void;
}

const MAX_BATCH = 1000;

/** Usage rows on their way to Postgres: off every request's path, in batches, kept while Postgres is away. */
export class UsageSpool {
  readonly #options: Required<Pick<UsageSpoolOptions, "flushMs" | "maxRows">> & UsageSpoolOptions;
  #rows: UsageRow[] = [];
  #timer: Timer | null = null;
  #flushing: Promise<void> | null = null;
  #dropped = 0;

  constructor(options: UsageSpoolOptions) {
    this.#options = { flushMs: 250, maxRows: 100_000, ...options };
  }

  /** Rows that wait. */
  get depth(): number {
    return this.#rows.length;
  }

  /** Rows that were lost because Postgres was away for too long. */
  get dropped(): number {
    return this.#dropped;
  }

  add(row: UsageRow): void {
    this.#rows.push(row);
    if (this.#rows.length > this.#options.maxRows) {
      // In bulk, since taking rows off the front one by one would copy the spool each time.
      const surplus = Math.ceil(this.#options.maxRows / 100);
      this.#rows.splice(0, surplus);
      this.#dropped += surplus;
    }
    this.#options.onDepth?.(this.#rows.length);
    this.#arm(this.#options.flushMs);
  }

  /** Writes what waits; gives up at the first failure. */
  async close(): Promise<void> {
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    await this.#flushing;
    while (this.#rows.length > 0 && await this.#flush());
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    if (this.#rows.length > 0) {
      this.#options.log.error("Usage rows were lost: Postgres took none at the end", {
        rows: this.#rows.length,
      });
    }
  }

  #arm(delayMs: number): void {
    if (this.#timer !== null || this.#flushing !== null) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = null;
      this.#flushing = this.#flush().then((written) => {
        this.#flushing = null;
        if (this.#rows.length === 0) return;
        // A full batch behind a written one does not wait.
        this.#arm(written && this.#rows.length >= MAX_BATCH ? 0 : this.#options.flushMs);
      });
    }, delayMs);
  }

  /** Writes one batch; what came meanwhile stays behind it. False when Postgres took nothing. */
  async #flush(): Promise<boolean> {
    const batch = this.#rows;
    this.#rows = batch.length > MAX_BATCH ? batch.splice(MAX_BATCH) : [];
    try {
      await insertUsage(this.#options.db, batch);
      this.#options.onDepth?.(this.#rows.length);
      return true;
    } catch (error) {
      this.#rows = [...batch, ...this.#rows];
      this.#options.log.warn("Usage rows wait for Postgres", {
        rows: this.#rows.length,
        error: toHubError(error),
      });
      return false;
    }
  }
}
