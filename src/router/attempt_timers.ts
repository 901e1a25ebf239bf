import type { Timeouts } from "../config/provider_schema.ts";
import type { Clock, Timer } from "../core/clock.ts";
import { HubError } from "../core/error.ts";

/**
 * First-token, inactivity and total time of one attempt. A chunk only notes the time; the one running timer looks when
 * it fires and goes on for what is left, so that a stream costs no timer per chunk.
 */
export class AttemptTimers {
  readonly #clock: Clock;
  readonly #timeouts: Timeouts;
  readonly #onExpire: (error: HubError) => void;
  readonly #startedMs: number;
  #lastMs: number;
  #committed = false;
  #timer: Timer = null;

  constructor(
    timeouts: Timeouts,
    options: { clock: Clock; onExpire: (error: HubError) => void },
  ) {
    this.#clock = options.clock;
    this.#timeouts = timeouts;
    this.#onExpire = options.onExpire;
    this.#startedMs = this.#lastMs = options.clock.monotonic();
    this.#arm();
  }

  /** Bytes have come. */
  touch(): void {
    this.#lastMs = this.#clock.monotonic();
  }

  /** The first content of a stream, or the head of a whole answer, has come: from now on silence is what counts. */
  commit(): void {
    this.touch();
    this.#committed = true;
    this.#clock.clearTimer(this.#timer);
    this.#arm();
  }

  stop(): void {
    this.#clock.clearTimer(this.#timer);
  }

  #arm(): void {
    const dueMs = Math.min(this.#silenceDueMs(), this.#startedMs + this.#timeouts.totalMs);
    const leftMs = Math.max(1, dueMs - this.#clock.monotonic());
    this.#timer = this.#clock.setTimer(() => this.#check(), leftMs);
  }

  #silenceDueMs(): number {
    return this.#committed
      ? this.#lastMs + this.#timeouts.inactivityMs
      : this.#startedMs + this.#timeouts.firstTokenMs;
  }

  #check(): void {
    const now = this.#clock.monotonic();
    const { totalMs, firstTokenMs, inactivityMs } = this.#timeouts;
    if (now >= this.#startedMs + totalMs) {
      this.#onExpire(timeout(`The provider's answer took longer than ${totalMs} ms`));
    } else if (now < this.#silenceDueMs()) this.#arm();
    else if (this.#committed) {
      this.#onExpire(timeout(`The provider fell silent for ${inactivityMs} ms in mid-answer`));
    } else this.#onExpire(timeout(`The provider sent no content within ${firstTokenMs} ms`));
  }
}

function timeout(message: string): HubError {
  return new HubError("upstream_timeout", message);
}
