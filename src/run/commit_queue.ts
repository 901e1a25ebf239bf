import { type Clock, sleep, type Timer } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { RunCommit } from "../store/run_commit.ts";

/** What a commit tells about a run that is still owned. */
export interface CommitVerdict {
  stopRequested: boolean;
}

/** What the queue needs from its surroundings. */
export interface CommitQueueOptions {
  /** Writes all commits in one statement; runs that are missing from the answer are fenced. */
  write(commits: RunCommit[]): Promise<Map<string, CommitVerdict>>;
  /** True when the run still has this epoch and holds this commit already (its acknowledgement was lost). */
  isWritten(commit: RunCommit): Promise<boolean>;
  /** Called after each commit of a run, with the last sequence number that is now durable. */
  onCommitted(runId: string, lastSeq: number, verdict: CommitVerdict): void;
  /** Called when a run's events could not be written: its log has a hole now, so the run must end here. */
  onLost(runId: string, error: HubError): void;
  clock: Clock;
  log: Log;
  /** Longest time a delta waits for its commit, in milliseconds. */
  flushMs: number;
  /** How long a write is tried again while Postgres is away, in milliseconds: less than the lease. */
  patienceMs: number;
}

interface Waiter {
  resolve(): void;
  reject(error: HubError): void;
}

interface Entry {
  commit: RunCommit;
  waiters: Waiter[];
  /** Monotonic time of the first failed write, or null. */
  failingSince: number | null;
}

const RETRY_MS = [50, 100, 200, 400, 800, 1000];

/**
 * Gathers the writes of all runs of this replica: deltas leave together every `flushMs`, transitions at once and
 * with them all that waits. One statement is under way at a time, so each run's events arrive in order.
 */
export class CommitQueue {
  readonly #options: CommitQueueOptions;
  #waiting = new Map<string, Entry>();
  #timer: Timer | null = null;
  #flushing: Promise<void> | null = null;
  #urgent = false;

  constructor(options: CommitQueueOptions) {
    this.#options = options;
  }

  /** Adds deltas; they are durable within `flushMs`. */
  add(commit: RunCommit): void {
    this.#merge(commit, null);
    this.#timer ??= this.#options.clock.setTimer(() => {
      this.#timer = null;
      // Behind a statement that is under way, at once.
      this.#urgent = true;
      this.#flush();
    }, this.#options.flushMs);
  }

  /** Adds a commit and resolves once it, and all of this run before it, is durable. Rejects with `lease_lost` or `database_unavailable`. */
  commit(commit: RunCommit): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#merge(commit, { resolve, reject });
      this.#urgent = true;
      this.#flush();
    });
  }

  /** Forgets what waits for a run: it is no longer ours. */
  drop(runId: string): void {
    const entry = this.#waiting.get(runId);
    this.#waiting.delete(runId);
    for (const waiter of entry?.waiters ?? []) waiter.reject(leaseLost(runId));
  }

  /** Writes everything that waits; resolves when nothing is left or under way. */
  async drain(): Promise<void> {
    while (this.#waiting.size > 0 || this.#flushing !== null) {
      this.#flush();
      await this.#flushing;
    }
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
  }

  #merge(commit: RunCommit, waiter: Waiter | null): void {
    const entry = this.#waiting.get(commit.runId);
    if (entry === undefined) {
      this.#waiting.set(commit.runId, {
        commit,
        waiters: waiter === null ? [] : [waiter],
        failingSince: null,
      });
      return;
    }
    entry.commit = joinCommits(entry.commit, commit);
    if (waiter !== null) entry.waiters.push(waiter);
  }

  #flush(): void {
    if (this.#flushing !== null || this.#waiting.size === 0) return;
    this.#urgent = false;
    const batch = this.#waiting;
    this.#waiting = new Map();
    this.#flushing = this.#write([...batch.values()]).finally(() => {
      this.#flushing = null;
      if (this.#urgent) this.#flush();
    });
  }

  /**
   * Writes these entries, as often as Postgres is away. What comes meanwhile of their runs waits behind them and is
   * not joined: a write whose answer was lost is known by its last number.
   */
  async #write(entries: Entry[]): Promise<void> {
    const open = new Set(entries);
    let oneByOne = false;
    while (open.size > 0) {
      const batch = oneByOne ? [...open].slice(0, 1) : [...open];
      try {
        const verdicts = await this.#options.write(batch.map((entry) => entry.commit));
        for (const entry of batch) {
          const { commit } = entry;
          const verdict = verdicts.get(commit.runId) ?? await this.#verdictOfMissing(commit);
          open.delete(entry);
          if (verdict === null) this.#fail(entry, leaseLost(commit.runId));
          else this.#succeed(entry, verdict);
        }
      } catch (error) {
        const failure = toHubError(error);
        if (failure.code === "database_unavailable") await this.#waitOut(open, failure);
        else if (batch.length > 1) oneByOne = true;
        else {
          for (const entry of batch) {
            open.delete(entry);
            this.#fail(entry, failure);
          }
        }
      }
    }
  }

  /** A run that the fence let not pass: ours all the same when the write had succeeded and only its answer was lost. */
  async #verdictOfMissing(commit: RunCommit): Promise<CommitVerdict | null> {
    return await this.#options.isWritten(commit) ? { stopRequested: false } : null;
  }

  /** Waits for a Postgres that is away; gives up entries that have failed for too long, and takes in other runs. */
  async #waitOut(open: Set<Entry>, failure: HubError): Promise<void> {
    const { clock, patienceMs, log } = this.#options;
    const now = clock.monotonic();
    let waits = 0;
    for (const entry of open) {
      entry.failingSince ??= now;
      const failingMs = now - entry.failingSince;
      if (failingMs < patienceMs) waits = Math.max(waits, failingMs);
      else {
        open.delete(entry);
        this.#fail(entry, failure);
      }
    }
    if (open.size === 0) return;
    log.warn("Postgres does not take writes of runs; trying again", { error: failure });
    const delayMs = RETRY_MS[Math.min(RETRY_MS.length - 1, Math.floor(waits / 100))] ?? 1000;
    await sleep(clock, delayMs);
    const runs = new Set([...open].map((entry) => entry.commit.runId));
    for (const [runId, entry] of this.#waiting) {
      if (runs.has(runId)) continue;
      this.#waiting.delete(runId);
      open.add(entry);
    }
  }

  #succeed(entry: Entry, verdict: CommitVerdict): void {
    const last = entry.commit.events.at(-1);
    if (last !== undefined) this.#options.onCommitted(entry.commit.runId, last.seq, verdict);
    else if (verdict.stopRequested) this.#options.onCommitted(entry.commit.runId, 0, verdict);
    for (const waiter of entry.waiters) waiter.resolve();
  }

  /** The run is lost, with what waits behind this entry: its log would have a hole. */
  #fail(entry: Entry, error: HubError): void {
    const { runId } = entry.commit;
    const newer = this.#waiting.get(runId);
    this.#waiting.delete(runId);
    for (const waiter of [...entry.waiters, ...newer?.waiters ?? []]) waiter.reject(error);
    this.#options.onLost(runId, error);
  }
}

function leaseLost(runId: string): HubError {
  return new HubError("lease_lost", `This replica no longer owns ${runId}`);
}

/**
 * Two commits of one run as one: events in order, newer rows over older ones. The older commit is changed and
 * given back, since a run streams thousands of deltas between two writes.
 */
export function joinCommits(older: RunCommit, newer: RunCommit): RunCommit {
  for (const event of newer.events) older.events.push(event);
  older.reserveTo = Math.max(older.reserveTo, newer.reserveTo);
  if (newer.parts.length > 0) older.parts = joinRows(older.parts, newer.parts, (row) => row.index);
  if (newer.steps.length > 0) older.steps = joinRows(older.steps, newer.steps, (row) => row.step);
  if (newer.toolCalls.length > 0) {
    older.toolCalls = joinRows(older.toolCalls, newer.toolCalls, (row) => row.toolCallId);
  }
  if (newer.finish !== undefined) older.finish = newer.finish;
  return older;
}

function joinRows<T, K>(older: T[], newer: T[], keyOf: (row: T) => K): T[] {
  const rows = new Map(older.map((row) => [keyOf(row), row]));
  for (const row of newer) rows.set(keyOf(row), row);
  return [...rows.values()];
}
