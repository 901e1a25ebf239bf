import type { Clock, Timer } from "./clock.ts";

/** A time limit that stands still while something else is waited for. */
export class PausableTimer {
  readonly #clock: Clock;
  readonly #onLate: () => void;
  #leftMs: number;
  #fromMs = 0;
  #pauses = 0;
  #timer: Timer | null = null;
  #ended = false;

  constructor(clock: Clock, { ms, onLate }: { ms: number; onLate: () => void }) {
    this.#clock = clock;
    this.#leftMs = ms;
    this.#onLate = onLate;
    this.#run();
  }

  /** Does not count the time that this takes. */
  async pausedFor<T>(wait: () => Promise<T>): Promise<T> {
    if (this.#pauses++ === 0) this.#hold();
    try {
      return await wait();
    } finally {
      if (--this.#pauses === 0) this.#run();
    }
  }

  /** Ends it for good. */
  end(): void {
    this.#ended = true;
    this.#hold();
  }

  #run(): void {
    if (this.#ended) return;
    this.#fromMs = this.#clock.monotonic();
    this.#timer = this.#clock.setTimer(this.#onLate, this.#leftMs);
  }

  #hold(): void {
    if (this.#timer === null) return;
    this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#leftMs = Math.max(0, this.#leftMs - (this.#clock.monotonic() - this.#fromMs));
  }
}
