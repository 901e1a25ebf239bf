import type { AbortLike } from "./abort.ts";

/** Told of those who stand in a line. */
export interface LineWatch {
  /** One is about to leave because its signal aborted. */
  gaveUp(): void;
  /** One is out of the line, inside or away. */
  out(): void;
}

/**
 * Those who wait, in the order they came. Links between them rather than a `Set`: an old table of a `Set` keeps whoever
 * stood in it, and the tables after it, until the next full collection.
 */
export class WaitingLine {
  first: Waiter | null = null;
  size = 0;
  #last: Waiter | null = null;
  readonly #watch: LineWatch;

  constructor(watch: LineWatch) {
    this.#watch = watch;
  }

  /** Puts one at the end, who leaves by itself when its signal aborts. */
  add(signal: AbortLike, dueMs: number): Waiter {
    const waiter = new Waiter(this, signal, dueMs);
    signal.addEventListener("abort", waiter, { once: true });
    waiter.before = this.#last;
    if (this.#last === null) this.first = waiter;
    else this.#last.behind = waiter;
    this.#last = waiter;
    this.size++;
    return waiter;
  }

  /** Takes one out; a waiter's own. */
  remove(waiter: Waiter): void {
    const { before, behind } = waiter;
    if (before === null) this.first = behind;
    else before.behind = behind;
    if (behind === null) this.#last = before;
    else behind.before = before;
    waiter.before = waiter.behind = null;
    this.size--;
    this.#watch.out();
  }

  /** A waiter's own. */
  gaveUp(): void {
    this.#watch.gaveUp();
  }
}

/** One who stands in a line. */
export class Waiter {
  readonly dueMs: number;
  /** Resolves when it may go in; rejects when it is sent away, or with its signal's reason. */
  readonly place: Promise<void>;
  /** Neighbours; the line's own. */
  before: Waiter | null = null;
  behind: Waiter | null = null;
  readonly #line: WaitingLine;
  readonly #signal: AbortLike;
  readonly #resolve: () => void;
  readonly #reject: (error: unknown) => void;

  constructor(line: WaitingLine, signal: AbortLike, dueMs: number) {
    this.#line = line;
    this.#signal = signal;
    this.dueMs = dueMs;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.place = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Out of the line and in. */
  admit(): void {
    this.#leave();
    this.#resolve();
  }

  /** Out of the line and away. */
  sendAway(error: unknown): void {
    this.#leave();
    this.#reject(error);
  }

  /** Its signal aborted. */
  handleEvent(): void {
    this.#line.gaveUp();
    this.sendAway(this.#signal.reason);
  }

  #leave(): void {
    this.#signal.removeEventListener("abort", this);
    this.#line.remove(this);
  }
}
