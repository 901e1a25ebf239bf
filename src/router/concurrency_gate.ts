import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";

interface Waiting {
  enter(): void;
}

/** Requests that may wait for each one that runs. */
const WAITING_PER_PLACE = 2;

/** Lets a bounded number of requests to one provider run; a bounded number of others wait in order, for a bounded time. */
export class ConcurrencyGate {
  readonly #max: number;
  readonly #clock: Clock;
  readonly #queue = new Set<Waiting>();
  #inside = 0;

  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
  }

  /** The way out, or null when no place is free. */
  tryEnter(): (() => void) | null {
    if (this.#inside >= this.#max) return null;
    this.#inside++;
    return this.#wayOut();
  }

  /** Resolves with the way out. Rejects with `overloaded` after `waitMs` or when too many wait, or with the signal's reason. */
  async enter(options: { signal: AbortLike; waitMs: number }): Promise<() => void> {
    const way = this.tryEnter();
    if (way !== null) return way;
    if (this.#queue.size >= this.#max * WAITING_PER_PLACE) throw overloaded();
    await this.#wait(options);
    return this.#wayOut();
  }

  #wayOut(): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const [next] = this.#queue;
      if (next === undefined) this.#inside--;
      else next.enter();
    };
  }

  #wait({ signal, waitMs }: { signal: AbortLike; waitMs: number }): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (settle: () => void) => {
        this.#clock.clearTimer(timer);
        signal.removeEventListener("abort", onAbort);
        this.#queue.delete(waiting);
        settle();
      };
      const waiting: Waiting = { enter: () => leave(resolve) };
      const onAbort = () => leave(() => reject(signal.reason));
      const timer = this.#clock.setTimer(() => leave(() => reject(overloaded())), waitMs);
      if (signal.aborted) return onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      this.#queue.add(waiting);
    });
  }
}

function overloaded(): HubError {
  return new HubError("overloaded", "Too many requests wait for this provider; try again", {
    retryAfterMs: 1000,
  });
}
