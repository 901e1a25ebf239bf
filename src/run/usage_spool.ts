import { type Clock, doneWithin, sleep, type Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { type Database, isRefusal } from "../store/database.ts";
import { insertModelCalls } from "../store/model_calls.ts";
import {
  type BegunCall,
  type EncodedUsageRow,
  encodeUsageRow,
  idsOfUsageRow,
  type UsageRow,
} from "../store/usage_rows.ts";
import { BegunCalls } from "./begun_calls.ts";
import { readJournal } from "./journal/journal_records.ts";
import type { UsageJournal } from "./journal/usage_journal.ts";
import { writeUsage } from "./usage_writer.ts";

/** What the spool needs. */
export interface UsageSpoolOptions {
  db: Database;
  clock: Clock;
  log: Log;
  flushMs?: number;
  /** Rows held in memory while Postgres is away; past it the oldest stay in the journal alone, or are lost and counted. */
  maxRows?: number;
  /** Where rows are until they are booked; null, or left out, where nothing can be written. */
  journal?: UsageJournal | null;
  onDepth?(rows: number): void;
}

/** Rows that the end of a hub could not write. */
export interface UnwrittenRows {
  /** In the journal, for the next start. */
  waiting: number;
  lost: number;
}

const MAX_BATCH = 1000;
/** Between two tries at the end, in milliseconds. */
const RETRY_MS = 250;
/** Longest wait for an urgent row to be settled, in milliseconds. */
const SETTLE_MS = 1000;

/** Usage rows on their way to Postgres: off every request's path, in batches, kept while Postgres is away. */
export class UsageSpool {
  readonly #options: Required<Pick<UsageSpoolOptions, "flushMs" | "maxRows">> & UsageSpoolOptions;
  #rows: EncodedUsageRow[] = [];
  /** Those of runs that may not be written, by run. */
  readonly #ofRuns = new Map<string, EncodedUsageRow[]>();
  /** Calls of runs that were sent and have no row yet. */
  readonly #begun = new BegunCalls();
  #timer: Timer | null = null;
  #flushing: Promise<void> | null = null;
  /** Those that are being written. */
  #batch: readonly EncodedUsageRow[] = [];
  #dropped = 0;
  /** Rows that are in the journal alone. */
  #spilled = 0;
  /** Those who wait for urgent rows. */
  #waiters = new Map<EncodedUsageRow, () => void>();
  /** The last statement failed: nothing is waited for until one does not. */
  #isAway = false;
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

  /** Notes a call of a run that is about to be sent: written with the run's next commit, or with the next batch. */
  begin(call: BegunCall): void {
    this.#options.journal?.appendBegun(call);
    this.#begun.add(call);
    this.#arm(this.#options.flushMs);
  }

  /** Adds a row that waits for the next batch. */
  add(row: UsageRow): void {
    this.#push(row);
    this.#arm(this.#options.flushMs);
  }

  /**
   * Adds a row that is written and settled at once, with all that waits. Resolves when it is, when Postgres fails, or
   * after a second; never rejects.
   */
  settle(row: UsageRow): Promise<void> {
    const encoded = this.#push(row);
    if (this.#isAway || this.#closed) return Promise.resolve(this.#arm(this.#options.flushMs));
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const done = () => {
        clock.clearTimer(timer);
        this.#waiters.delete(encoded);
        resolve();
      };
      const timer = clock.setTimer(done, SETTLE_MS);
      this.#waiters.set(encoded, done);
      clock.clearTimer(this.#timer);
      this.#timer = null;
      if (this.#flushing === null) this.#begin();
    });
  }

  #push(row: UsageRow): EncodedUsageRow {
    this.#begun.end(row.usageId);
    const encoded = encodeUsageRow(row);
    this.#options.journal?.append(encoded);
    this.#rows.push(encoded);
    const { runId } = row;
    if (runId !== undefined) this.#ofRuns.set(runId, [...this.#ofRuns.get(runId) ?? [], encoded]);
    this.#bound();
    this.#options.onDepth?.(this.#rows.length);
    return encoded;
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

  /** Begun calls of a run that might not be written, each once, for its next commit. */
  takeCallsOf(runId: string): BegunCall[] {
    return this.#begun.takeOf(runId);
  }

  /** Writes rows that another process has left. False when Postgres is away: then they are to be given again. */
  async book(rows: readonly EncodedUsageRow[]): Promise<boolean> {
    for (let at = 0; at < rows.length; at += MAX_BATCH) {
      const { left, refused } = await writeUsage(rows.slice(at, at + MAX_BATCH), this.#options);
      this.#dropped += refused;
      if (left.length > 0) return false;
    }
    return true;
  }

  /**
   * Writes what waits, again and again for `graceMs` while Postgres is away. What is left then is in the journal, where
   * there is one, and else lost; both are logged and given.
   */
  async close(graceMs = 0): Promise<UnwrittenRows> {
    const { clock, log, journal = null } = this.#options;
    this.#closed = true;
    clock.clearTimer(this.#timer);
    this.#timer = null;
    const untilMs = clock.monotonic() + graceMs;
    const leftMs = () => Math.max(0, untilMs - clock.monotonic());
    const write = async () => {
      await this.#flushing;
      while (this.#rows.length > 0) {
        if (await this.#flush()) continue;
        if (leftMs() === 0) return;
        await sleep(clock, Math.min(RETRY_MS, leftMs()));
      }
    };
    if (graceMs === 0) await write();
    else await doneWithin(clock, graceMs, write());
    const own = [...this.#batch, ...this.#rows];
    const rows = own.length + this.#spilled;
    for (const row of own) {
      if (journal?.holds(idsOfUsageRow(row).usageId) === false) journal.append(row);
    }
    const isKept = journal !== null && await journal.sync();
    const lost = isKept
      ? own.filter((row) => !journal.holds(idsOfUsageRow(row).usageId)).length
      : own.length;
    await journal?.close();
    const unwritten = { waiting: rows - lost, lost };
    if (unwritten.waiting > 0) {
      log.warn("Usage rows wait in the journal for the next start: Postgres is away", unwritten);
    }
    if (lost > 0) log.error("Usage rows were lost: Postgres took none at the end", { rows: lost });
    return unwritten;
  }

  #arm(delayMs: number): void {
    if (this.#closed || this.#timer !== null || this.#flushing !== null) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = null;
      this.#begin();
    }, delayMs);
  }

  /** Begins to write; what is left then waits for its time, unless someone waits for it. */
  #begin(): void {
    this.#flushing = this.#flush().then((written) => {
      this.#flushing = null;
      if (this.#rows.length === 0 && !this.#begun.waits) return;
      if (written && this.#waiters.size > 0 && !this.#closed) return this.#begin();
      // A full batch behind a written one does not wait.
      this.#arm(written && this.#rows.length >= MAX_BATCH ? 0 : this.#options.flushMs);
    });
  }

  /** Lets the oldest rows past the bound go: in bulk, since one by one would copy the spool each time. */
  #bound(): void {
    const { maxRows, log } = this.#options;
    if (this.#rows.length <= maxRows) return;
    const surplus = this.#rows.length - maxRows + Math.ceil(maxRows / 100) - 1;
    const gone = this.#rows.splice(0, surplus);
    this.#forget(gone);
    const { journal } = this.#options;
    const ids = gone.map((row) => idsOfUsageRow(row).usageId);
    const kept = ids.filter((usageId) => journal?.holds(usageId) === true);
    journal?.spill(kept);
    this.#spilled += kept.length;
    const lost = surplus - kept.length;
    this.#dropped += lost;
    if (lost === 0) return;
    log.error("Usage rows were lost: too many wait for Postgres", { rows: lost });
  }

  /** Writes one batch; what came meanwhile stays behind it. False when rows of it are left. */
  async #flush(): Promise<boolean> {
    const batch = this.#rows;
    this.#batch = batch;
    this.#rows = batch.length > MAX_BATCH ? batch.splice(MAX_BATCH) : [];
    const { left, refused } = await writeUsage(batch, this.#options);
    this.#batch = [];
    this.#dropped += refused;
    const done = left.length === 0 ? batch : batch.slice(0, batch.length - left.length);
    this.#forget(done);
    this.#options.journal?.booked(done.map((row) => idsOfUsageRow(row).usageId));
    if (left.length > 0) {
      this.#rows = [...left, ...this.#rows];
      this.#bound();
    }
    this.#isAway = left.length > 0;
    // What failed is settled when Postgres is back, which no answer waits for.
    for (const row of this.#isAway ? [...this.#waiters.keys()] : batch) this.#waiters.get(row)?.();
    this.#options.onDepth?.(this.#rows.length);
    return left.length === 0 && await this.#writeBegun() && await this.#bookSpilled();
  }

  /** Books rows that have left memory, file by file. False when that failed. */
  async #bookSpilled(): Promise<boolean> {
    const { journal, log } = this.#options;
    for (;;) {
      const path = journal?.spilled?.path;
      if (path === undefined) return true;
      try {
        const { rows, damaged } = await readJournal(path);
        if (!await this.book(rows)) return false;
        if (damaged > 0) log.error("Lines of a journal of usage rows are damaged", { damaged });
        journal?.reread(path);
      } catch (error) {
        log.error("A journal of usage rows cannot be read", { path, error });
        journal?.reread(path);
      }
      if (journal?.spilled === null) this.#spilled = 0;
    }
  }

  /** Notes calls that are under way, behind the rows of those that ended. False when that failed. */
  async #writeBegun(): Promise<boolean> {
    const calls = this.#begun.waiting();
    if (calls.length === 0) return true;
    try {
      await insertModelCalls(this.#options.db, calls);
    } catch (error) {
      this.#options.log.warn("Begun model calls were not noted", { error: toHubError(error) });
      if (!isRefusal(error)) return false;
    }
    this.#begun.written(calls);
    this.#options.journal?.noted(calls);
    return true;
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
}
