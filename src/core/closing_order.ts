import { type Clock, doneWithin } from "./clock.ts";

/** How long parts may take to end. Times are milliseconds. */
export interface ClosingLimit<Name extends string> {
  clock: Clock;
  /** All together. */
  withinMs: number;
  /** One of them, when that is over. */
  leastMs(name: Name): number;
}

/** Ends parts in an order that is written down once, however they were started and whichever of them were. */
export class ClosingOrder<Name extends string> {
  readonly #order: readonly Name[];
  readonly #onFailure: (name: Name, error: unknown) => void;
  readonly #limit: ClosingLimit<Name> | null;
  readonly #steps = new Map<Name, () => Promise<void> | void>();
  #closing: Promise<void> | null = null;
  #untilMs = Infinity;

  /** A part that fails to end, or takes too long, is told to `onFailure` and keeps nothing behind it from ending. */
  constructor(
    order: readonly Name[],
    onFailure: (name: Name, error: unknown) => void,
    limit: ClosingLimit<Name> | null = null,
  ) {
    this.#order = order;
    this.#onFailure = onFailure;
    this.#limit = limit;
  }

  /** Says how a part that was started now is ended. */
  add(name: Name, end: () => Promise<void> | void): void {
    this.#steps.set(name, end);
  }

  /** What is left of the time of all parts, in milliseconds; 0 when it is over. */
  leftMs(): number {
    if (this.#limit === null) return Infinity;
    return Math.max(
      0,
      Math.min(this.#limit.withinMs, this.#untilMs - this.#limit.clock.monotonic()),
    );
  }

  /** Ends all parts, one after the other; later calls wait for the first. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#limit !== null) {
      this.#untilMs = this.#limit.clock.monotonic() + this.#limit.withinMs;
    }
    for (const name of this.#order) {
      try {
        const ended = this.#steps.get(name)?.();
        if (ended !== undefined) await this.#inTime(name, ended);
      } catch (error) {
        this.#onFailure(name, error);
      }
    }
  }

  async #inTime(name: Name, ended: Promise<void>): Promise<void> {
    const limit = this.#limit;
    if (limit === null) return await ended;
    const waitMs = Math.max(limit.leastMs(name), this.leftMs());
    if (await doneWithin(limit.clock, waitMs, ended)) return;
    // What it still does, or fails with, is no one's any more.
    ended.catch(() => {});
    throw new Error(`It did not end within ${Math.round(waitMs)} ms`);
  }
}
