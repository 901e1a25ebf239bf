import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";

/** Waits for news of one run. */
export interface RunWatch {
  /** Resolves when the run may have news since the last call, when it is time to look anyway, or when the signal aborts. */
  next(signal: AbortLike): Promise<void>;
  close(): void;
}

/** Wakes those here who follow runs that other replicas drive. A wake is a hint: whoever is woken looks. */
export class RunWakeups {
  readonly #options: { clock: Clock; pollMs(): number };
  readonly #watching = new Map<string, Set<() => void>>();

  /** `pollMs` is the longest wait without a hint, asked at each wait. */
  constructor(options: { clock: Clock; pollMs(): number }) {
    this.#options = options;
  }

  /** Watches from now on: what happens between two calls of `next` is not missed. */
  watch(runId: string): RunWatch {
    const { clock, pollMs } = this.#options;
    let isNews = false;
    let resume: (() => void) | null = null;
    const wake = () => {
      isNews = true;
      resume?.();
    };
    const all = this.#watching.get(runId) ?? new Set();
    this.#watching.set(runId, all.add(wake));
    return {
      async next(signal) {
        if (!isNews && !signal.aborted) {
          const woken = Promise.withResolvers<void>();
          resume = woken.resolve;
          const timer = clock.setTimer(woken.resolve, pollMs());
          signal.addEventListener("abort", resume, { once: true });
          await woken.promise;
          signal.removeEventListener("abort", woken.resolve);
          clock.clearTimer(timer);
          resume = null;
        }
        isNews = false;
      },
      close: () => {
        all.delete(wake);
        if (all.size === 0 && this.#watching.get(runId) === all) this.#watching.delete(runId);
      },
    };
  }

  /** These runs have news. */
  wake(runIds: Iterable<string>): void {
    for (const runId of runIds) for (const wake of this.#watching.get(runId) ?? []) wake();
  }

  /** News may have been missed. */
  wakeAll(): void {
    this.wake(this.#watching.keys());
  }
}
