import type { AbortLike } from "./abort.ts";
import type { Clock } from "./clock.ts";
import type { Deadline, Deadlines } from "./deadlines.ts";
import { HubError } from "./error.ts";
import { type LineWatch, WaitingLine } from "./waiting_line.ts";

/** Why a gate sends a request away: as many wait as may, or no place came free in time. */
export type Refusal = "full" | "late";

/** What is counted at one gate, or at all gates of a kind. */
export interface GateTally {
  inside: number;
  waiting: number;
  /** Requests that stopped waiting because their client left. */
  left: number;
  refused(why: Refusal, subject: string): void;
}

/** How many a gate lets in, how many more may wait, and for how long. */
export interface GateLimits {
  max: number;
  maxQueued: number;
  queueTimeoutMs: number;
}

/** What a gate is made from. */
export interface GateOptions extends GateLimits {
  /** Whose requests these are, as clients and the log read it. */
  subject: string;
  /** What a refusal is: the hub's or a provider's own state, or the client's doing. */
  code: "overloaded" | "rate_limit_exceeded";
  clock: Clock;
  /** Of the queue; closed by whoever made them, when nobody waits any more. */
  deadlines: Deadlines;
  tally: GateTally;
  /** Requests that came in before there was a gate, and leave through it. */
  inside?: number;
}

const LEAST_RETRY_MS = 1000;
const MOST_RETRY_MS = 60_000;
/** What came before counts no more than this in the pace of a gate. */
const PACE_MS = 10_000;

/**
 * Lets a bounded number of requests run at one time; a bounded number of others wait in the order they came, for a
 * bounded time. Who came in calls `leave` exactly once. A place that is free costs two additions.
 */
export class ConcurrencyGate implements Deadline, LineWatch {
  dueMs = Infinity;
  place = -1;
  #options: GateOptions;
  readonly #queue = new WaitingLine(this);
  #inside = 0;
  /** Time without a free place, and who left in it: how long it takes until a place comes free. */
  #fullMs = 0;
  #fullSinceMs = 0;
  #passed = 0;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#inside = options.inside ?? 0;
    options.tally.inside += this.#inside;
  }

  /** Sets other limits: who waits comes in where there is room now; who is inside stays. */
  resize(limits: GateLimits): void {
    const { tally, clock } = this.#options;
    const wasFull = !this.hasRoom;
    this.#options = { ...this.#options, ...limits };
    if (wasFull && this.hasRoom) this.#fullMs += clock.coarse() - this.#fullSinceMs;
    for (let { first } = this.#queue; first !== null && this.hasRoom; { first } = this.#queue) {
      this.#inside++;
      tally.inside++;
      first.admit();
    }
    if (!this.hasRoom) this.#fullSinceMs = clock.coarse();
  }

  get hasRoom(): boolean {
    return this.#inside < this.#options.max;
  }

  /** True when nobody is inside, and so nobody waits. */
  get isIdle(): boolean {
    return this.#inside === 0;
  }

  /** Takes a place if one is free; nobody waits then. */
  tryEnter(): boolean {
    const { max, tally, clock } = this.#options;
    if (this.#inside >= max) return false;
    this.#inside++;
    tally.inside++;
    if (this.#inside === max) this.#fullSinceMs = clock.coarse();
    return true;
  }

  /**
   * A promise of a place, for whoever found none. Throws at once when too many wait. Rejects when it took too long, or
   * with the signal's reason when that aborts first. A refusal says after what time a retry makes sense.
   */
  wait(signal: AbortLike): Promise<void> {
    if (signal.aborted) throw signal.reason;
    if (this.#queue.size >= this.#options.maxQueued) throw this.#refuse("full");
    const { clock, deadlines, tally, queueTimeoutMs } = this.#options;
    const dueMs = clock.coarse() + queueTimeoutMs;
    const { place } = this.#queue.add(signal, dueMs);
    tally.waiting++;
    if (this.#queue.size === 1) deadlines.set(this, dueMs);
    return place;
  }

  /** Gives the place to the first in line, or back. */
  leave(): void {
    const { max, tally, clock } = this.#options;
    const wasFull = this.#inside >= max;
    if (wasFull) this.#passed++;
    const { first } = this.#queue;
    if (first !== null && this.#inside <= max) return first.admit();
    if (wasFull) this.#fullMs += clock.coarse() - this.#fullSinceMs;
    this.#inside--;
    tally.inside--;
  }

  /** Called by the deadlines. All wait equally long, so that only the first in line needs one. */
  expire(nowMs: number): void {
    for (let { first } = this.#queue; first !== null; { first } = this.#queue) {
      if (first.dueMs > nowMs) return this.#options.deadlines.set(this, first.dueMs);
      first.sendAway(this.#refuse("late"));
    }
  }

  /** Called by the line. */
  gaveUp(): void {
    this.#options.tally.left++;
  }

  /** Called by the line. */
  out(): void {
    this.#options.tally.waiting--;
    if (this.#queue.size === 0) this.#options.deadlines.remove(this);
  }

  #refuse(why: Refusal): HubError {
    const { subject, code, max, queueTimeoutMs, tally } = this.#options;
    tally.refused(why, subject);
    const message = why === "full"
      ? `${subject} has ${max} requests under way and ${this.#queue.size} more waiting, which is its limit`
      : `${subject} has ${max} requests under way, and had no place for this one within ${queueTimeoutMs} ms`;
    const options = { retryAfterMs: this.#retryAfterMs() };
    // The stack of a refusal tells nothing, and is half of what it costs.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    const error = new HubError(code, message, options);
    Error.stackTraceLimit = stackTraceLimit;
    return error;
  }

  /** When those who wait now will be inside, by the pace at which places came free while none was. */
  #retryAfterMs(): number {
    const nowMs = this.#options.clock.coarse();
    if (!this.hasRoom) {
      this.#fullMs += nowMs - this.#fullSinceMs;
      this.#fullSinceMs = nowMs;
    }
    if (this.#fullMs > PACE_MS) {
      this.#passed *= PACE_MS / this.#fullMs;
      this.#fullMs = PACE_MS;
    }
    const eachMs = this.#fullMs / (this.#passed || 1);
    const wholeMs = Math.ceil(eachMs * (this.#queue.size + 1));
    return Math.min(MOST_RETRY_MS, Math.max(LEAST_RETRY_MS, wholeMs));
  }
}
