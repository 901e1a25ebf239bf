import type { Clock, Timer } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { isEnd } from "../inference/terminal.ts";
import type { OwnedRun, RunCommit } from "../store/run_commit.ts";

/** What a commit tells about a run that is still owned. */
export interface CommitVerdict extends OwnedRun {
  /** The run was told something more, so its end was left out; all else is written. */
  isHeld?: boolean;
}

/** A commit that is written. */
export interface Committed {
  runId: string;
  /** The last sequence number that is now durable; 0 when the commit had no events. */
  lastSeq: number;
  verdict: CommitVerdict;
  /** Monotonic time from which on the lease counts that it renewed; null when it had been written before. */
  leaseFromMs: number | null;
}

/** What the queue is made with. */
export interface CommitQueueOptions {
  /** Writes all commits in one statement; runs that are missing from the answer are fenced. */
  write(commits: RunCommit[]): Promise<Map<string, OwnedRun>>;
  /**
   * Looks why a commit was not written. Null when the run is another's; else it holds this commit already (its
   * acknowledgement was lost), or is told more than the commit that would end it knows of: then the end is held.
   */
  settle(commit: RunCommit): Promise<CommitVerdict | null>;
  /** Called after each commit of a run. */
  onCommitted(done: Committed): void;
  /** Called when a run's events could not be written under this epoch: its log has a hole now, so it must end here. */
  onLost(runId: string, error: HubError, epoch: number): void;
  clock: Clock;
  log: Log;
  /** Longest time a delta waits for its commit, in milliseconds. */
  flushMs: number;
  /** How long a write is tried again while Postgres is away, in milliseconds: less than the lease. */
  patienceMs: number;
}

interface Waiter {
  resolve(verdict: CommitVerdict): void;
  reject(error: HubError): void;
}

interface Entry {
  commit: RunCommit;
  waiters: Waiter[];
  /** Monotonic time of the first failed write, or null. */
  failingSince: number | null;
  /** The end of the run was taken out of the commit. */
  isHeld?: boolean;
}

const RETRY_MS = [50, 100, 200, 400, 800, 1000];

/**
 * Gathers the writes of all runs of this replica: deltas leave together every `flushMs`, transitions at once and
 * with them all that waits. One statement is under way at a time, so each run's events arrive in order; what has been
 * tried once is never joined with what came later.
 */
export class CommitQueue {
  readonly #options: CommitQueueOptions;
  #waiting = new Map<string, Entry>();
  /** Written perhaps. Each is written again just as it was, so that its last number tells whether it had been. */
  #uncertain: Entry[] = [];
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
      this.#urgent = true;
      this.#flush();
    }, this.#options.flushMs);
  }

  /** Adds a commit and resolves once it, and all of this run before it, is durable, but for an end that is held. Rejects with `lease_lost` or `database_unavailable`. */
  commit(commit: RunCommit): Promise<CommitVerdict> {
    return new Promise((resolve, reject) => {
      this.#merge(commit, { resolve, reject });
      this.#urgent = true;
      this.#flush();
    });
  }

  /** Forgets what waits for a run: it is no longer ours. */
  drop(runId: string): void {
    const isOf = (entry: Entry) => entry.commit.runId === runId;
    for (const entry of this.#uncertain.filter(isOf)) reject(entry, leaseLost(runId));
    this.#uncertain = this.#uncertain.filter((entry) => !isOf(entry));
    this.#dropWaiting(runId, leaseLost(runId));
  }

  /** Writes everything that waits; resolves when nothing is left or under way. */
  async drain(): Promise<void> {
    while (this.#waiting.size + this.#uncertain.length > 0 || this.#flushing !== null) {
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
    // What a run says after it was lost must not slip in under the right that it had.
    if (entry.commit.epoch !== commit.epoch) return waiter?.reject(leaseLost(commit.runId));
    entry.commit = joinCommits(entry.commit, commit);
    if (waiter !== null) entry.waiters.push(waiter);
  }

  /** Writes what is uncertain, and what waits of all other runs. */
  #flush(): void {
    if (this.#flushing !== null) return;
    this.#urgent = false;
    const batch = this.#uncertain;
    this.#uncertain = [];
    const held = new Map<string, Entry>();
    const again = new Set(batch.map((entry) => entry.commit.runId));
    for (const [runId, entry] of this.#waiting) {
      if (again.has(runId)) held.set(runId, entry);
      else batch.push(entry);
    }
    if (batch.length === 0) return;
    this.#waiting = held;
    this.#urgent = held.size > 0;
    this.#flushing = this.#write(batch).finally(() => {
      this.#flushing = null;
      if (this.#urgent) this.#flush();
    });
  }

  async #write(entries: Entry[]): Promise<void> {
    const unsettled = new Set(entries);
    // A lease counts from when Postgres was asked, not from when its answer came.
    const askedMs = this.#options.clock.monotonic();
    try {
      const verdicts = await this.#options.write(entries.map((entry) => entry.commit));
      for (const entry of entries) {
        const verdict = verdicts.get(entry.commit.runId);
        if (verdict !== undefined) this.#succeed(entry, verdict, askedMs);
        else await this.#settleMissing(entry);
        unsettled.delete(entry);
      }
    } catch (error) {
      const failure = toHubError(error);
      if (failure.code === "database_unavailable") await this.#putBack([...unsettled], failure);
      else if (entries.length > 1) { for (const entry of unsettled) await this.#write([entry]); }
      else for (const entry of entries) await this.#writeAlone(entry, failure);
    }
  }

  /** Postgres refused the commit: it goes without what others write too, when that may be why, or its run is given up. */
  async #writeAlone(entry: Entry, failure: HubError): Promise<void> {
    const { usage, calls, ...commit } = entry.commit;
    if (usage === undefined && calls === undefined) return this.#fail(entry, failure);
    entry.commit = commit;
    await this.#write([entry]);
  }

  /** A run that the fence let not pass: ours all the same when only its answer was lost, or when it may not end yet. */
  async #settleMissing(entry: Entry): Promise<void> {
    const verdict = await this.#options.settle(entry.commit);
    if (verdict === null) this.#fail(entry, leaseLost(entry.commit.runId));
    else if (verdict.isHeld !== true) this.#succeed(entry, verdict, null);
    else {
      entry.commit = withoutEnd(entry.commit);
      entry.isHeld = true;
      await this.#write([entry]);
    }
  }

  async #putBack(entries: readonly Entry[], failure: HubError): Promise<void> {
    const { clock, patienceMs, log } = this.#options;
    const now = clock.monotonic();
    let waits = 0;
    for (const entry of entries) {
      entry.failingSince ??= now;
      if (now - entry.failingSince >= patienceMs) {
        this.#fail(entry, failure);
        continue;
      }
      waits = Math.max(waits, now - entry.failingSince);
      this.#uncertain.push(entry);
    }
    if (this.#uncertain.length === 0) return;
    log.warn("Postgres does not take writes of runs; trying again", { error: failure });
    const delayMs = RETRY_MS[Math.min(RETRY_MS.length - 1, Math.floor(waits / 100))] ?? 1000;
    await new Promise<void>((resolve) => clock.setTimer(resolve, delayMs));
    this.#urgent = true;
  }

  #succeed(entry: Entry, verdict: CommitVerdict, leaseFromMs: number | null): void {
    const { runId, events } = entry.commit;
    const lastSeq = events.at(-1)?.seq ?? 0;
    if (lastSeq > 0 || verdict.stopRequested || verdict.steered > 0) {
      this.#options.onCommitted({ runId, lastSeq, verdict, leaseFromMs });
    }
    const { isHeld = false } = entry;
    for (const waiter of entry.waiters) waiter.resolve({ ...verdict, isHeld });
  }

  /** Gives a run up, with what has come behind this entry: written, it would stand behind a hole. */
  #fail(entry: Entry, error: HubError): void {
    const { runId, epoch } = entry.commit;
    reject(entry, error);
    if (this.#waiting.get(runId)?.commit.epoch === epoch) this.#dropWaiting(runId, error);
    this.#options.onLost(runId, error, epoch);
  }

  #dropWaiting(runId: string, error: HubError): void {
    const entry = this.#waiting.get(runId);
    this.#waiting.delete(runId);
    if (entry !== undefined) reject(entry, error);
  }
}

function reject(entry: Entry, error: HubError): void {
  for (const waiter of entry.waiters) waiter.reject(error);
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
  if (newer.steering !== undefined) older.steering = [...older.steering ?? [], ...newer.steering];
  if (newer.approvals !== undefined) {
    older.approvals = [...older.approvals ?? [], ...newer.approvals];
  }
  if (newer.questions !== undefined) {
    older.questions = joinRows(older.questions ?? [], newer.questions, (row) => row.questionId);
  }
  if (newer.usage !== undefined) older.usage = [...older.usage ?? [], ...newer.usage];
  if (newer.calls !== undefined) older.calls = [...older.calls ?? [], ...newer.calls];
  if (newer.pause !== undefined) older.pause = newer.pause;
  if (newer.finish !== undefined) older.finish = newer.finish;
  if (newer.steered !== undefined) older.steered = newer.steered;
  return older;
}

/** The commit of a run that goes on after all. */
function withoutEnd({ finish: _, ...commit }: RunCommit): RunCommit {
  return { ...commit, events: commit.events.filter(({ event }) => !isEnd(event)) };
}

function joinRows<T, K>(older: T[], newer: T[], keyOf: (row: T) => K): T[] {
  const rows = new Map(older.map((row) => [keyOf(row), row]));
  for (const row of newer) rows.set(keyOf(row), row);
  return [...rows.values()];
}
