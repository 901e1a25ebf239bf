import type { Clock, Timer } from "./clock.ts";

/** Something that must happen by a time. Made once, put under many deadlines one after the other. */
export interface Deadline {
  /** Monotonic time in milliseconds; `Infinity` for none. Change it with `Deadlines.set`. */
  dueMs: number;
  /** Place in the list; the list's own. */
  place: number;
  /** The time has come. It is out of the list, or under whatever new deadline this sets. */
  expire(nowMs: number): void;
}

/**
 * Many deadlines over one timer. A timer of the runtime costs microseconds to make and to clear, and what it holds lives
 * until the next collection; a deadline here is a number in an array. The timer is set for the earliest deadline it
 * was told of and is not moved when that one goes: it fires, looks, and is set for the next.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #list: Deadline[] = [];
  #timer: Timer | null = null;
  #lookMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How much is under a deadline. */
  get size(): number {
    return this.#list.length;
  }

  /** Puts something under a deadline, or moves it. */
  set(deadline: Deadline, dueMs: number): void {
    deadline.dueMs = dueMs;
    if (deadline.place < 0) deadline.place = this.#list.push(deadline) - 1;
    if (dueMs < this.#lookMs) this.#look(dueMs);
  }

  /** Takes it out; one that is not in is ignored. */
  remove(deadline: Deadline): void {
    const { place } = deadline;
    if (place < 0) return;
    deadline.place = -1;
    const last = this.#list.pop();
    if (last === undefined || last === deadline) return;
    this.#list[place] = last;
    last.place = place;
  }

  /** Forgets all of them. */
  close(): void {
    for (const deadline of this.#list) deadline.place = -1;
    this.#list.length = 0;
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#lookMs = Infinity;
  }

  #look(dueMs: number): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#lookMs = dueMs;
    const delayMs = Math.max(1, Math.ceil(dueMs - this.#clock.monotonic()));
    this.#timer = this.#clock.setTimer(this.#onTimer, delayMs);
  }

  readonly #onTimer = () => {
    this.#timer = null;
    this.#lookMs = Infinity;
    const nowMs = this.#clock.monotonic();
    let failure: { error: unknown } | null = null;
    for (const deadline of this.#list.filter(({ dueMs }) => dueMs <= nowMs)) {
      // One that expired before it may have moved or removed it.
      if (deadline.place < 0 || deadline.dueMs > nowMs) continue;
      this.remove(deadline);
      try {
        deadline.expire(nowMs);
      } catch (error) {
        failure ??= { error };
      }
    }
    let nextMs = Infinity;
    for (const { dueMs } of this.#list) nextMs = Math.min(nextMs, dueMs);
    if (nextMs < this.#lookMs) this.#look(nextMs);
    if (failure !== null) throw failure.error;
  };
}
