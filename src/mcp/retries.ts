import type { Clock, Timer } from "../core/clock.ts";
import { backoffMs } from "./backoff.ts";
import type { ConnectionState } from "./connection_state.ts";

/** What trying again needs. */
export interface RetriesOptions {
  clock: Clock;
  random: () => number;
  connect(): Promise<void>;
}

/** A connection that held this long starts the backoff anew. */
const STEADY_MS = 60_000;

/** When a connection that failed or was lost is tried again: later each time. */
export class Retries {
  readonly #options: RetriesOptions;
  #readyAtMs = 0;
  #failures = 0;
  #timer: Timer | null = null;

  constructor(options: RetriesOptions) {
    this.#options = options;
  }

  /** The connection holds from now on. */
  ready(): void {
    this.#readyAtMs = this.#options.clock.monotonic();
  }

  /** It has ended. */
  lost(): void {
    const heldMs = this.#options.clock.monotonic() - this.#readyAtMs;
    if (heldMs >= STEADY_MS) this.#failures = 0;
  }

  /** It is tried again by itself; gives how it stands until then. */
  arm(reason: string): ConnectionState {
    const { clock, random, connect } = this.#options;
    const failures = ++this.#failures;
    const delayMs = backoffMs(failures, random);
    this.#timer = clock.setTimer(() => void connect(), delayMs);
    return { kind: "backoff", reason, failures, nextAtMs: clock.monotonic() + delayMs };
  }

  stop(): void {
    this.#options.clock.clearTimer(this.#timer);
  }
}
