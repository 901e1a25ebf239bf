import type { Clock, Timer } from "../core/clock.ts";

const COALESCE_MS = 300;

/** Reads a list again when it has changed: many changes in a short time are one, those that come while it is read one more. */
export class ListRefresh {
  readonly #clock: Clock;
  readonly #read: () => Promise<void>;
  #state: "idle" | "waiting" | "reading" | "dirty" | "closed" = "idle";
  #timer: Timer | null = null;
  #reading: Promise<void> = Promise.resolve();

  /** `read` never rejects. */
  constructor(clock: Clock, read: () => Promise<void>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** The list has changed. */
  changed(): void {
    if (this.#state === "reading") this.#state = "dirty";
    if (this.#state !== "idle") return;
    this.#state = "waiting";
    this.#timer = this.#clock.setTimer(() => {
      this.#reading = this.#run();
    }, COALESCE_MS);
  }

  /** Reads at once, or once more behind a reading under way; resolves when that has ended. */
  async now(): Promise<void> {
    while (this.#state === "reading" || this.#state === "dirty") await this.#reading;
    if (this.#state === "closed") return;
    this.#clock.clearTimer(this.#timer);
    this.#reading = this.#run();
    await this.#reading;
  }

  /** Reads no more; resolves when a reading under way has ended. */
  async close(): Promise<void> {
    this.#state = "closed";
    this.#clock.clearTimer(this.#timer);
    await this.#reading;
  }

  async #run(): Promise<void> {
    this.#state = "reading";
    await this.#read();
    const after = this.#now();
    if (after === "closed") return;
    this.#state = "idle";
    if (after === "dirty") this.changed();
  }

  #now(): string {
    return this.#state;
  }
}
