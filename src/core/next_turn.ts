/** Resolves once the event loop has gone around: timers and sockets get their turn first. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * Divides long work into stretches. Work is measured in units that the caller chooses (bytes, characters, values), so
 * that no clock is needed.
 */
export class WorkStretch {
  readonly #units: number;
  #spent = 0;

  /** `units` is the most work between two turns of the event loop: some 5 ms of it. */
  constructor(units: number) {
    this.#units = units;
  }

  /** Counts work that was done; resolves at once while there is room in this stretch, else a turn later. */
  spend(units: number): Promise<void> | undefined {
    this.#spent += units;
    if (this.#spent < this.#units) return undefined;
    this.#spent = 0;
    return nextTurn();
  }
}
