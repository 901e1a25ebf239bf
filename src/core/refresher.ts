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
  #hints = 0;
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

  /** Looks now, and once more when told so meanwhile. Never throws. */
  async check(): Promise<void> {
    if (this.#closed || ++this.#hints > 1) return;
    while (this.#hints > 0 && !this.#closed) {
      this.#hints = 1;
      await this.#try();
      this.#hints--;
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
  }

  async #try(): Promise<void> {
    try {
      await this.#options.refresh();
    } catch (error) {
      this.#options.onError(error);
    }
  }
}
