import { Aborter, type AbortLike } from "../core/abort.ts";
import type { Clock, Timer } from "../core/clock.ts";
import { HubError } from "../core/error.ts";

/**
 * Something that is asked for once, for all who wait for it. It goes on as long as one of them is there, whoever that is:
 * when the last one leaves it is stopped.
 */
export class JoinedAsk<T> {
  readonly #aborter = new Aborter();
  readonly #result: Promise<T>;
  readonly #onOver: () => void;
  #here = 0;

  /** `onOver` is called when nobody new may join: it has ended, or all have left it; perhaps twice. */
  constructor(ask: (signal: AbortLike) => Promise<T>, onOver: () => void) {
    this.#onOver = onOver;
    this.#result = ask(this.#aborter).finally(onOver);
    // Whoever has left does not hear how it failed.
    this.#result.catch(() => {});
  }

  /** What came of it; null when that takes too long. Rejects as it does, and with `client_closed` when the signal aborts. */
  async wait(
    signal: AbortLike,
    patience?: { clock: Clock; limitMs: number },
  ): Promise<T | null> {
    const gone = Promise.withResolvers<null>();
    const leave = () => gone.reject(new HubError("client_closed", "The client left"));
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    const timer: Timer | null = patience === undefined
      ? null
      : patience.clock.setTimer(() => gone.resolve(null), patience.limitMs);
    this.#here++;
    try {
      return await Promise.race([this.#result, gone.promise]);
    } finally {
      signal.removeEventListener("abort", leave);
      if (timer !== null) patience?.clock.clearTimer(timer);
      if (--this.#here === 0) this.#stop();
    }
  }

  /** Does nothing to what has ended. */
  #stop(): void {
    this.#onOver();
    this.#aborter.abort(new HubError("client_closed", "The client left"));
  }
}
