import type { Clock, Timer } from "../../core/clock.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import type { Log } from "../../core/log.ts";
import { type BegunCall, type EncodedUsageRow, idsOfUsageRow } from "../../store/usage_rows.ts";
import { createLock, type JournalLock, segmentPath } from "./journal_lock.ts";
import { encodeRecord } from "./journal_records.ts";
import { JournalSegment } from "./journal_segment.ts";

/** Where a journal is, and how it writes. */
export interface JournalOptions {
  /** Folder of the journals of all processes on this machine. */
  dir: string;
  /** No other process has it. */
  name: string;
  clock: Clock;
  log: Log;
  /** Most bytes of all files. */
  maxBytes?: number;
}

/** How soon at most a record is on the disk, in milliseconds. */
const SYNC_MS = 40;
/** An append that took longer: the disk is slow, and for a while appends go in batches that no answer waits for. */
const SLOW_MS = 10;
const BATCHES_MS = 10_000;
const WRITE_MS = 2;
/** A file that is larger is followed by the next one. */
const SEGMENT_BYTES = 4 * 1024 * 1024;
const MAX_BYTES = 128 * 1024 * 1024;
/** How long nothing is written after a failure. */
const PAUSE_MS = 10_000;

/**
 * Files that hold usage rows until they are booked, so that the end of the process loses none: the next start, or
 * another process on this machine, books what is left. An append is a write into the page cache, of microseconds, and
 * never before an answer's first byte; the disk has it `SYNC_MS` later. What is booked is truncated. Nothing here throws: a disk that fails is told once, and the rows wait in memory as without.
 */
export class UsageJournal {
  readonly #options: JournalOptions & { maxBytes: number };
  readonly #lock: JournalLock;
  #current: JournalSegment;
  /** Full files whose records are not all booked, oldest first. */
  #full: JournalSegment[] = [];
  #files = 1;
  #pending: Uint8Array[] = [];
  #timer: Timer = null;
  #syncTimer: Timer = null;
  #writing: Promise<void> | null = null;
  #pausedUntilMs = -Infinity;
  #slowUntilMs = -Infinity;
  #isTold = false;
  #isClosed = false;

  private constructor(options: JournalOptions, lock: JournalLock) {
    this.#options = { maxBytes: MAX_BYTES, ...options };
    this.#lock = lock;
    this.#current = JournalSegment.create(segmentPath(options.dir, options.name, 0));
  }

  /** Makes the folder and the first file. Null, with a warning, when they cannot be written: the hub serves without. */
  static async open(options: JournalOptions): Promise<UsageJournal | null> {
    const { dir, name, log } = options;
    let lock: JournalLock | null = null;
    try {
      await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
      lock = await createLock(dir, name);
      return new UsageJournal(options, lock);
    } catch (error) {
      await lock?.remove();
      log.warn(
        "There is no journal of usage rows, since its folder cannot be written: rows that wait are lost when the hub is killed",
        { dir, error },
      );
      return null;
    }
  }

  /** Appends the row of a call that has ended. */
  append(row: EncodedUsageRow): void {
    const { usageId } = idsOfUsageRow(row);
    const bytes = encodeRecord(row);
    if (!this.#hasRoom(bytes.length)) return;
    if (this.#options.clock.monotonic() >= this.#slowUntilMs) {
      return this.#appendNow(usageId, bytes);
    }
    this.#count(usageId, bytes);
    this.#pending.push(bytes);
    if (this.#writing === null) this.#writeLater();
  }

  /** Appends a call that is about to be sent, before this returns. */
  appendBegun(call: BegunCall): void {
    const bytes = encodeRecord(call);
    if (this.#hasRoom(bytes.length)) this.#appendNow(begunId(call.row.usageId), bytes);
  }

  /** These rows are in Postgres. */
  booked(usageIds: Iterable<string>): void {
    for (const usageId of usageIds) {
      this.#forget(usageId);
      this.#forget(begunId(usageId));
    }
    this.#clean();
  }

  /** Postgres knows of these begun calls. */
  noted(calls: readonly BegunCall[]): void {
    for (const { row: { usageId } } of calls) this.#forget(begunId(usageId));
    this.#clean();
  }

  /** Whether the row is in a file, or on its way there. */
  holds(usageId: string): boolean {
    return [this.#current, ...this.#full].some(({ waiting }) => waiting.has(usageId));
  }

  /** Rows that leave memory: their files stay until `takeSpilled` gives them. All must be held. */
  spill(usageIds: readonly string[]): void {
    if (usageIds.some((id) => this.#current.waiting.has(id))) this.#rotate();
    for (const segment of this.#full) {
      if (!segment.isSpilled && usageIds.some((id) => segment.waiting.has(id))) {
        segment.isSpilled = true;
      }
    }
  }

  /** A file whose rows have left memory, oldest first; null when there is none. Told back by `reread`. */
  get spilled(): { path: string } | null {
    return this.#writing === null ? this.#full.find(({ isSpilled }) => isSpilled) ?? null : null;
  }

  /** All rows of a spilled file are in Postgres. */
  reread(path: string): void {
    for (const segment of this.#full) {
      if (segment.path !== path) continue;
      segment.isSpilled = false;
      segment.waiting.clear();
    }
    this.#clean();
  }

  /** Writes what waits, on the disk too. False when that failed. */
  async sync(): Promise<boolean> {
    this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    while (this.#writing !== null || this.#pending.length > 0) await this.#write();
    const failures = this.#pausedUntilMs;
    await this.#sync();
    return this.#pausedUntilMs === failures;
  }

  /** Ends it. Files whose rows are not booked stay for the next process. */
  async close(): Promise<void> {
    await this.sync();
    this.#options.clock.clearTimer(this.#syncTimer);
    this.#clean();
    const isEmpty = this.#current.isBooked && this.#full.length === 0;
    this.#isClosed = true;
    for (const segment of [this.#current, ...this.#full]) segment.close();
    if (!isEmpty) return this.#lock.leave();
    await Deno.remove(this.#current.path).catch(() => {});
    await this.#lock.remove();
  }

  #appendNow(id: string, bytes: Uint8Array): void {
    const { clock } = this.#options;
    const fromMs = clock.monotonic();
    this.#count(id, bytes);
    this.#attempt(() => this.#current.writeNow(bytes));
    const nowMs = clock.monotonic();
    if (nowMs - fromMs > SLOW_MS) this.#slowUntilMs = nowMs + BATCHES_MS;
    this.#syncLater();
  }

  #count(id: string, bytes: Uint8Array): void {
    if (this.#current.size > SEGMENT_BYTES) this.#rotate();
    this.#current.size += bytes.length;
    this.#current.waiting.add(id);
  }

  #writeLater(): void {
    this.#timer ??= this.#options.clock.setTimer(() => {
      this.#timer = null;
      void this.#write();
    }, WRITE_MS);
  }

  #hasRoom(bytes: number): boolean {
    const { clock, maxBytes } = this.#options;
    if (this.#isClosed || clock.monotonic() < this.#pausedUntilMs) return false;
    return this.#full.reduce((sum, { size }) => sum + size, this.#current.size + bytes) <= maxBytes;
  }

  /** Begins the next file. What is on its way goes into the one before. */
  #rotate(): void {
    const { dir, name } = this.#options;
    this.#attempt(() => {
      const next = JournalSegment.create(segmentPath(dir, name, this.#files++));
      const before = this.#current;
      this.#attempt(() => before.writeNow(joinBytes(this.#pending)));
      this.#pending = [];
      this.#full.push(before);
      this.#current = next;
      this.#syncLater(before);
    });
  }

  async #write(): Promise<void> {
    await this.#writing;
    if (this.#pending.length === 0) return;
    const segment = this.#current;
    const bytes = joinBytes(this.#pending);
    this.#pending = [];
    this.#writing = segment.write(bytes).catch((error) => this.#fail(error)).finally(() => {
      this.#writing = null;
    });
    await this.#writing;
    this.#clean();
    this.#syncLater();
    if (this.#pending.length > 0) this.#writeLater();
  }

  /** Writes to the disk once, however much comes until then. */
  #syncLater(segment?: JournalSegment): void {
    if (segment !== undefined) {
      void segment.sync().catch((error) => {
        // One that was booked meanwhile is closed.
        if (this.#full.includes(segment)) this.#fail(error);
      });
      return;
    }
    this.#syncTimer ??= this.#options.clock.setTimer(() => {
      this.#syncTimer = null;
      void this.#sync();
    }, SYNC_MS);
  }

  async #sync(): Promise<void> {
    const segment = this.#current;
    if (segment.size === 0) return;
    await segment.sync().catch((error) => {
      if (segment === this.#current) this.#fail(error);
    });
  }

  #forget(id: string): void {
    this.#current.waiting.delete(id);
    for (const { waiting } of this.#full) waiting.delete(id);
  }

  /** Drops what is booked: full files go, the current one is truncated. */
  #clean(): void {
    if (this.#isClosed) return;
    const booked = this.#full.filter(({ isBooked }) => isBooked);
    if (booked.length > 0 && this.#writing === null) {
      this.#full = this.#full.filter(({ isBooked }) => !isBooked);
      for (const segment of booked) {
        segment.close();
        Deno.remove(segment.path).catch((error) => this.#fail(error));
      }
    }
    const current = this.#current;
    const isQuiet = this.#writing === null && this.#pending.length === 0;
    if (isQuiet && current.size > 0 && current.isBooked) this.#attempt(() => current.truncate());
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const { clock, log, dir } = this.#options;
    this.#pausedUntilMs = clock.monotonic() + PAUSE_MS;
    if (this.#isTold) return;
    this.#isTold = true;
    log.warn("The journal of usage rows cannot be written: rows wait in memory alone", {
      dir,
      error,
    });
  }
}

function begunId(usageId: string): string {
  return `begun ${usageId}`;
}
