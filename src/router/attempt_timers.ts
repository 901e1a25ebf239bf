import type { Timeouts } from "../config/provider_schema.ts";
import type { Clock } from "../core/clock.ts";
import type { Deadline, Deadlines } from "../core/deadlines.ts";
import { HubError } from "../core/error.ts";

/**
 * First-token, inactivity and total time of one attempt. A chunk only notes the time; the deadline looks when it has come
 * and moves on for what is left, so that a stream costs no timer per chunk.
 */
export class AttemptTimers implements Deadline {
  dueMs = Infinity;
  place = -1;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  readonly #timeouts: Timeouts;
  readonly #onExpire: (error: HubError) => void;
  readonly #startedMs: number;
  /** When the first token began to be waited for. */
  #askedMs: number;
  #lastMs: number;
  #committed = false;
  #clientAwaited = false;
  #stopped = false;

  constructor(
    timeouts: Timeouts,
    options: { clock: Clock; deadlines: Deadlines; onExpire: (error: HubError) => void },
  ) {
    this.#clock = options.clock;
    this.#deadlines = options.deadlines;
    this.#timeouts = timeouts;
    this.#onExpire = options.onExpire;
    this.#startedMs = this.#askedMs = this.#lastMs = options.clock.coarse();
    this.#arm();
  }

  /** Bytes have come. */
  touch(): void {
    this.#lastMs = this.#clock.coarse();
  }

  /** The client's next bytes of the request are waited for, or have come: until then the provider cannot be late. */
  awaitClient(isAwaited: boolean): void {
    this.#clientAwaited = isAwaited;
    this.#askedMs = this.#clock.coarse();
    if (!isAwaited) this.#arm();
  }

  /** The answer has begun: from now on silence is what counts. */
  commit(): void {
    this.touch();
    this.#committed = true;
    this.#arm();
  }

  /** Nothing is timed any more, whatever comes. */
  stop(): void {
    this.#stopped = true;
    this.#deadlines.remove(this);
  }

  /** Called by the deadlines. */
  expire(nowMs: number): void {
    const { totalMs, firstTokenMs, inactivityMs } = this.#timeouts;
    if (nowMs >= this.#startedMs + totalMs) {
      if (this.#isClientAwaited()) this.#onExpire(lateRequest(totalMs));
      else this.#onExpire(timeout(`The provider's answer took longer than ${totalMs} ms`));
    } else if (nowMs < this.#silenceDueMs()) this.#arm();
    else if (this.#committed) {
      this.#onExpire(timeout(`The provider fell silent for ${inactivityMs} ms in mid-answer`));
    } else this.#onExpire(timeout(`The provider sent no content within ${firstTokenMs} ms`));
  }

  #arm(): void {
    if (this.#stopped) return;
    const dueMs = Math.min(this.#silenceDueMs(), this.#startedMs + this.#timeouts.totalMs);
    this.#deadlines.set(this, dueMs);
  }

  /** An answer that has begun is timed whatever becomes of the request. */
  #isClientAwaited(): boolean {
    return this.#clientAwaited && !this.#committed;
  }

  #silenceDueMs(): number {
    if (this.#isClientAwaited()) return Infinity;
    return this.#committed
      ? this.#lastMs + this.#timeouts.inactivityMs
      : this.#askedMs + this.#timeouts.firstTokenMs;
  }
}

/** No failure of the provider's. */
function lateRequest(totalMs: number): HubError {
  return new HubError("invalid_request", `The request did not arrive within ${totalMs} ms`, {
    status: 408,
    clientCode: "request_timeout",
  });
}

function timeout(message: string): HubError {
  return new HubError("upstream_timeout", message);
}
