import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { type Database, isRefusal } from "../store/database.ts";
import { settleUsage } from "../store/settle_budgets.ts";
import {
  countedRows,
  type EncodedUsageRow,
  encodeUsageRow,
  idsOfUsageRow,
  insertUsage,
  type UsageRow,
} from "../store/usage_rows.ts";

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
  #rows: EncodedUsageRow[] = [];
  /** Those of runs that may not be written, by run. */
  readonly #ofRuns = new Map<string, EncodedUsageRow[]>();
  #timer: Timer | null = null;
  #flushing: Promise<void> | null = null;
  #dropped = 0;
  #closed = false;

  constructor(options: UsageSpoolOptions) {
    this.#options = { flushMs: 250, maxRows: 100_000, ...options };
  }

  /** Rows that wait. */
  get depth(): number {
    return this.#rows.length;
  }

  /** Rows that were lost: Postgres was away for too long, or refused them. */
  get dropped(): number {
    return this.#dropped;
  }

  add(row: UsageRow): void {
    const encoded = encodeUsageRow(row);
    this.#rows.push(encoded);
    const { runId } = row;
    if (runId !== undefined) this.#ofRuns.set(runId, [...this.#ofRuns.get(runId) ?? [], encoded]);
    this.#bound();
    this.#options.onDepth?.(this.#rows.length);
    this.#arm(this.#options.flushMs);
  }

  /**
   * Rows of a run that may not be written, each once: for the statement that ends what they are of, so that a hub that is
   * killed takes none with it. They are written and settled from here all the same, which changes nothing of them.
   */
  takeOf(runId: string): EncodedUsageRow[] {
    const rows = this.#ofRuns.get(runId) ?? [];
    this.#ofRuns.delete(runId);
    return rows;
  }

  /** Writes what waits; gives up at the first failure. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    await this.#flushing;
    while (this.#rows.length > 0 && await this.#flush());
    if (this.#rows.length > 0) {
      this.#options.log.error("Usage rows were lost: Postgres took none at the end", {
        rows: this.#rows.length,
      });
    }
  }

  #arm(delayMs: number): void {
    if (this.#closed || this.#timer !== null || this.#flushing !== null) return;
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

  /** Lets the oldest rows past the bound go: in bulk, since one by one would copy the spool each time. */
  #bound(): void {
    const { maxRows, log } = this.#options;
    if (this.#rows.length <= maxRows) return;
    const surplus = this.#rows.length - maxRows + Math.ceil(maxRows / 100) - 1;
    this.#forget(this.#rows.splice(0, surplus));
    this.#dropped += surplus;
    log.error("Usage rows were lost: too many wait for Postgres", { rows: surplus });
  }

  /** Writes one batch; what came meanwhile stays behind it. False when rows of it are left. */
  async #flush(): Promise<boolean> {
    const batch = this.#rows;
    this.#rows = batch.length > MAX_BATCH ? batch.splice(MAX_BATCH) : [];
    const left = await this.#write(batch);
    this.#forget(left.length === 0 ? batch : batch.slice(0, batch.length - left.length));
    if (left.length > 0) {
      this.#rows = [...left, ...this.#rows];
      this.#bound();
    }
    this.#options.onDepth?.(this.#rows.length);
    return left.length === 0;
  }

  /** Of rows that do not wait any more, none is held for the commit of its run: it may have no other. */
  #forget(rows: readonly EncodedUsageRow[]): void {
    if (this.#ofRuns.size === 0) return;
    const gone = new Set(rows);
    for (const [runId, own] of this.#ofRuns) {
      const waiting = own.filter((row) => !gone.has(row));
      if (waiting.length === 0) this.#ofRuns.delete(runId);
      else if (waiting.length < own.length) this.#ofRuns.set(runId, waiting);
    }
  }

  /** What rows cost is counted once they are there; when that fails they wait, and are not written twice. */
  async #settle(rows: readonly EncodedUsageRow[]): Promise<void> {
    const counted = countedRows(rows);
    if (counted.length > 0) await settleUsage(this.#options.db, counted);
  }

  /** Writes rows and gives those that must wait. A row that Postgres refuses is found by halving and dropped alone. */
  async #write(rows: EncodedUsageRow[]): Promise<EncodedUsageRow[]> {
    const { db, log } = this.#options;
    try {
      await insertUsage(db, rows);
      await this.#settle(rows);
      return [];
    } catch (error) {
      if (!isRefusal(error)) {
        log.warn("Usage rows wait for Postgres", {
          rows: rows.length + this.#rows.length,
          error: toHubError(error),
        });
        return rows;
      }
      const [row] = rows;
      if (rows.length === 1 && row !== undefined) {
        this.#dropped++;
        log.error("A usage row was lost: Postgres refuses it", { ...idsOfUsageRow(row), error });
        return [];
      }
      const half = rows.length >> 1;
      const left = await this.#write(rows.slice(0, half));
      if (left.length > 0) return [...left, ...rows.slice(half)];
      return await this.#write(rows.slice(half));
    }
  }
}
