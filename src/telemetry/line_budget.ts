import type { Clock } from "../core/clock.ts";

/** Bounds how often something is written that can happen thousands of times a second. */
export class LineBudget {
  readonly #clock: Clock;
  readonly #lines: number;
  readonly #perMs: number;
  #sinceMs = -Infinity;
  #written = 0;

  /** `lines` in each `perMs`. */
  constructor(clock: Clock, { lines, perMs }: { lines: number; perMs: number }) {
    this.#clock = clock;
    this.#lines = lines;
    this.#perMs = perMs;
  }

  /** Whether one more may be written now; it counts then. */
  take(): boolean {
    const nowMs = this.#clock.coarse();
    if (nowMs - this.#sinceMs >= this.#perMs) {
      this.#sinceMs = nowMs;
      this.#written = 0;
    }
    if (this.#written >= this.#lines) return false;
    this.#written++;
    return true;
  }
}
