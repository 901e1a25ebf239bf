/** Ends parts in an order that is written down once, however they were started and whichever of them were. */
export class ClosingOrder<Name extends string> {
  readonly #order: readonly Name[];
  readonly #onFailure: (name: Name, error: unknown) => void;
  readonly #steps = new Map<Name, () => Promise<void> | void>();
  #closing: Promise<void> | null = null;

  /** A part that fails to end is told to `onFailure` and keeps nothing behind it from ending. */
  constructor(order: readonly Name[], onFailure: (name: Name, error: unknown) => void) {
    this.#order = order;
    this.#onFailure = onFailure;
  }

  /** Says how a part that was started now is ended. */
  add(name: Name, end: () => Promise<void> | void): void {
    this.#steps.set(name, end);
  }

  /** Ends all parts, one after the other; later calls wait for the first. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const name of this.#order) {
      try {
        await this.#steps.get(name)?.();
      } catch (error) {
        this.#onFailure(name, error);
      }
    }
  }
}
