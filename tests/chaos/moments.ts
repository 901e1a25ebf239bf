/**
 * Moments at which a kill is worth its while: before a frame of the model, and between a tool's effect and its result.
 * Whoever waits for one holds it until it is released, so that kills come at a place in the work, not at a time.
 */
export class Moments {
  #left = 0;
  #held: ((release: () => void) => void) | null = null;

  /** Something has got here; resolves when it may go on. */
  reach(): Promise<void> {
    if (this.#held === null || --this.#left > 0) return Promise.resolve();
    const held = this.#held;
    this.#held = null;
    return new Promise((release) => held(release));
  }

  /** Waits for the `count`-th moment from now, and holds it until the function that it gives is called. */
  after(count: number): Promise<() => void> {
    this.#left = count;
    return new Promise((resolve) => this.#held = resolve);
  }
}
