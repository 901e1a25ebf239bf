import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";

interface Waiting {
  enter(): void;
}

/** Lets a bounded number of requests to one provider run; the others wait in order, for a bounded time. */
export class ConcurrencyGate {
  readonly #max: number;
  readonly #clock: Clock;
  readonly #queue: Waiting[] = [];
  #inside = 0;

  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
  }

  /** Resolves with the way out. Rejects with `overloaded` after `waitMs`, or with the signal's reason. */
  async enter(options: { signal: AbortLike; waitMs: number }): Promise<() => void> {
    if (this.#inside >= this.#max) await this.#wait(options);
    else this.#inside++;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = this.#queue.shift();
      if (next === undefined) this.#inside--;
      else next.enter();
    };
  }

  #wait({ signal, waitMs }: { signal: AbortLike; waitMs: number }): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (settle: () => void) => {
        this.#clock.clearTimer(timer);
        signal.removeEventListener("abort", onAbort);
        const place = this.#queue.indexOf(waiting);
        if (place >= 0) this.#queue.splice(place, 1);
        settle();
      };
      const waiting: Waiting = { enter: () => leave(resolve) };
      const onAbort = () => leave(() => reject(signal.reason));
      const timer = this.#clock.setTimer(
        () =>
          leave(() =>
            reject(
              new HubError("overloaded", "Too many requests wait for this provider; try again", {
                retryAfterMs: 1000,
              }),
            )
          ),
        waitMs,
      );
      if (signal.aborted) return onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      this.#queue.push(waiting);
    });
  }
}
