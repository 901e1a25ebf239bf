import { type Clock, doneWithin } from "../core/clock.ts";

/** How many calls go over a connection now. */
export class CallsUnderWay {
  #count = 0;
  #ended: (() => void) | null = null;

  get any(): boolean {
    return this.#count > 0;
  }

  begin(): void {
    this.#count++;
  }

  end(): void {
    this.#count--;
    if (this.#count === 0) this.#ended?.();
  }

  /** Resolves when there are none, or after this long. */
  async none(clock: Clock, limitMs: number): Promise<void> {
    if (this.#count === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#ended = resolve;
    await doneWithin(clock, limitMs, promise);
  }
}
