import type { AbortLike } from "../core/abort.ts";
import type { Clock } from "../core/clock.ts";
import type { RunKey } from "../store/runs.ts";
import type { LogPage } from "./look_at_log.ts";

/** One reader that waits for news of a run. */
export interface RunWatch {
  /** Reads the log behind `after`; readers that were woken by the same news share one reading. */
  look(after: number): Promise<LogPage>;
  /** Resolves when the run may have news since the last call, when it is time to look anyway, or when the signal aborts. */
  next(signal: AbortLike): Promise<void>;
  close(): void;
}

/** What waking readers needs. */
export interface RunWakeupsOptions {
  look(key: RunKey, after: number): Promise<LogPage>;
  /** The longest wait without a hint, asked at each wait. */
  pollMs(): number;
  clock: Clock;
}

interface Watched {
  wakes: Set<() => void>;
  /** Readings under way that began after the last news, by tenant and cursor. */
  looks: Map<string, Promise<LogPage>>;
}

/** Wakes those here who follow runs that other replicas drive. A wake is a hint: whoever is woken looks. */
export class RunWakeups {
  readonly #options: RunWakeupsOptions;
  readonly #watched = new Map<string, Watched>();

  constructor(options: RunWakeupsOptions) {
    this.#options = options;
  }

  /** Watches from now on: what happens between two calls of `next` is not missed. */
  watch(key: RunKey): RunWatch {
    const { clock, pollMs } = this.#options;
    const { runId } = key;
    let isNews = false;
    let resume: (() => void) | null = null;
    const wake = () => {
      isNews = true;
      resume?.();
    };
    const watched = this.#watched.get(runId) ?? { wakes: new Set(), looks: new Map() };
    this.#watched.set(runId, watched);
    watched.wakes.add(wake);
    return {
      look: (after) => this.#look(watched, key, after),
      async next(signal) {
        if (!isNews && !signal.aborted) {
          const woken = Promise.withResolvers<void>();
          resume = woken.resolve;
          const timer = clock.setTimer(woken.resolve, pollMs());
          signal.addEventListener("abort", woken.resolve, { once: true });
          await woken.promise;
          signal.removeEventListener("abort", woken.resolve);
          clock.clearTimer(timer);
          resume = null;
        }
        isNews = false;
      },
      close: () => {
        watched.wakes.delete(wake);
        const isLast = watched.wakes.size === 0 && this.#watched.get(runId) === watched;
        if (isLast) this.#watched.delete(runId);
      },
    };
  }

  /** These runs have news. */
  wake(runIds: Iterable<string>): void {
    for (const runId of runIds) {
      const watched = this.#watched.get(runId);
      // A reading that began before the news may not have it.
      watched?.looks.clear();
      for (const wake of watched?.wakes ?? []) wake();
    }
  }

  /** News may have been missed. */
  wakeAll(): void {
    this.wake(this.#watched.keys());
  }

  #look({ looks }: Watched, key: RunKey, after: number): Promise<LogPage> {
    const place = `${key.tenantId} ${after}`;
    const shared = looks.get(place);
    if (shared !== undefined) return shared;
    const own = this.#options.look(key, after).finally(() => {
      if (looks.get(place) === own) looks.delete(place);
    });
    looks.set(place, own);
    return own;
  }
}
