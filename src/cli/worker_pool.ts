import { type Clock, doneWithin, sleep } from "../core/clock.ts";
import type { LoadedConfig } from "../config/load.ts";
import type { Log } from "../core/log.ts";

/** A worker as its parent sees it. */
export interface WorkerProcess {
  readonly pid: number;
  /** Its address once it takes requests; null when it ended before. */
  readonly ready: Promise<string | null>;
  /** Its exit code. */
  readonly exited: Promise<number>;
  /** Gives it a configuration that was loaded again. */
  reload(loaded: LoadedConfig): void;
  /** Sends a signal; one that has ended is ignored. */
  signal(signal: "SIGINT" | "SIGTERM" | "SIGKILL"): void;
}

/** What a pool needs. */
export interface WorkerPoolOptions {
  count: number;
  /** Starts a worker; `url` is the address of the first, whose port the others share, null for the first itself. */
  spawn(number: number, url: string | null): WorkerProcess;
  clock: Clock;
  log: Log;
}

/** How the start ended: an address, or the exit code of the worker that failed. */
export type PoolStart = { url: string } | { code: number };

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** How long the others may take to end when one of them could not start. */
const FAILED_GRACE_MS = 5000;
/** A worker that was up for so long is started again as if it had never failed. */
const STEADY_MS = 60_000;

/** Keeps a number of workers alive: one that ends is started again, each time later, until all are told to stop. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, WorkerProcess>();
  readonly #stopped = new AbortController();
  readonly #keeping: Promise<void>[] = [];
  #url: string | null = null;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** Starts the first worker and then, on its port, the others. When one of them fails, all are stopped. */
  async start(): Promise<PoolStart> {
    for (let number = 1; number <= this.#options.count; number++) {
      // The first one finds the port, and what is wrong with the configuration, once for all.
      if (number === 1) this.#url = await this.#spawn(number).ready;
      if (this.#url === null || this.#stopped.signal.aborted) break;
      if (number > 1) this.#spawn(number);
    }
    const workers = [...this.#workers.values()];
    const urls = await Promise.all(workers.map((worker) => worker.ready));
    const failed = workers[urls.indexOf(null)];
    if (this.#url === null || failed !== undefined) {
      await this.stop("SIGINT", FAILED_GRACE_MS);
      return { code: await failed?.exited ?? 1 };
    }
    for (const number of this.#workers.keys()) this.#keeping.push(this.#keep(number));
    return { url: this.#url };
  }

  /** Passes the signal on, waits up to `graceMs` for all to end, and kills what is left. */
  async stop(signal: "SIGINT" | "SIGTERM", graceMs: number): Promise<void> {
    this.#stopped.abort();
    const workers = [...this.#workers.values()];
    for (const worker of workers) worker.signal(signal);
    const ended = Promise.all(workers.map((worker) => worker.exited));
    if (!await doneWithin(this.#options.clock, graceMs, ended)) this.kill();
    await ended;
    await Promise.all(this.#keeping);
  }

  /** Gives all workers a configuration that was loaded again. */
  reload(loaded: LoadedConfig): void {
    for (const worker of this.#workers.values()) worker.reload(loaded);
  }

  /** Kills all workers at once. */
  kill(): void {
    this.#stopped.abort();
    for (const worker of this.#workers.values()) worker.signal("SIGKILL");
  }

  #spawn(number: number): WorkerProcess {
    const worker = this.#options.spawn(number, this.#url);
    this.#workers.set(number, worker);
    void worker.ready.then((url) => {
      if (url === null) return;
      this.#options.log.info("A worker listens", { worker: number, pid: worker.pid });
    });
    return worker;
  }

  async #keep(number: number): Promise<void> {
    const { clock, log } = this.#options;
    const stopped = this.#stopped.signal;
    let pauseMs = FIRST_PAUSE_MS;
    let sinceMs = clock.monotonic();
    for (;;) {
      const worker = this.#workers.get(number);
      const code = await worker?.exited;
      if (stopped.aborted) return;
      if (clock.monotonic() - sinceMs >= STEADY_MS) pauseMs = FIRST_PAUSE_MS;
      log.error("A worker ended and is started again", {
        worker: number,
        pid: worker?.pid,
        code,
        pauseMs,
      });
      await sleep(clock, pauseMs, stopped).catch(() => {});
      if (stopped.aborted) return;
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      sinceMs = clock.monotonic();
      this.#spawn(number);
    }
  }
}
