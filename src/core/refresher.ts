import type { Clock, Timer } from "./clock.ts";

/** How to look again, and when. */
export interface RefresherOptions {
  clock: Clock;
  everyMs: number;
  refresh(): Promise<void>;
  onError(error: unknown): void;
}

/** Looks again at what may have changed: every few seconds, and when told so. */
export class Refresher {
  readonly #options: RefresherOptions;
  #timer: Timer | null = null;
  /** The last look that somebody asked for, and the one behind it. */
  #looking: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;
  #closed = false;

  constructor(options: RefresherOptions) {
    this.#options = options;
  }

  /** Looks from now on, until `close`. */
  start(): void {
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(() => {
      void this.#try().finally(() => this.start());
    }, this.#options.everyMs);
  }

  /** Looks now, or once the look under way is over. Resolves when one is done that began after the call; never throws. */
  check(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#next ??= this.#looking.then(() => {
      this.#next = null;
      return this.#looking = this.#closed ? Promise.resolve() : this.#try();
    });
    return this.#next;
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
  }

  async #try(): Promise<void> {
    try {
      await this.#options.refresh();
    } catch (error) {
      // What ends behind it takes the database away from a look under way.
      if (!this.#closed) this.#options.onError(error);
    }
  }
}
