import { type Clock, sleep } from "../../core/clock.ts";

/** Time that a computation takes before others have their turn. */
const TURN_MS = 8;

/** Lets others have their turn while something takes long. */
export class Turns {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  #startedMs: number;
  #beforeMs = 0;

  constructor({ clock, signal }: { clock: Clock; signal: AbortSignal }) {
    this.#clock = clock;
    this.#signal = signal;
    this.#startedMs = clock.monotonic();
  }

  /** Whether it is the others' turn; asked between any two pieces of the work. */
  get isOver(): boolean {
    return this.#clock.monotonic() - this.#startedMs > TURN_MS;
  }

  /** The time of all turns that are over, in milliseconds. */
  get spentMs(): number {
    return this.#beforeMs;
  }

  /** Begins a turn: what was between was waiting. */
  begin(): void {
    this.#startedMs = this.#clock.monotonic();
  }

  /** Ends the turn. */
  end(): void {
    this.#beforeMs += this.#clock.monotonic() - this.#startedMs;
    this.begin();
  }

  /** Lets the others have theirs. Rejects with the signal's reason. */
  async pass(): Promise<void> {
    this.end();
    await sleep(this.#clock, 0, this.#signal);
    this.begin();
  }
}
