import { type Clock, doneWithin, sleep } from "../core/clock.ts";
import type { LoadedConfig } from "../config/load.ts";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { ReloadAnswer } from "./worker_brief.ts";
import { EXIT } from "./exit_codes.ts";

/** A worker as its parent sees it. */
export interface WorkerProcess {
  readonly pid: number;
  /** Its address once it takes requests; null when it ended before. */
  readonly ready: Promise<string | null>;
  /** Its exit code. */
  readonly exited: Promise<number>;
  /** Gives it a configuration that was loaded again; resolves with its answer, null when it ended before. */
  reload(loaded: LoadedConfig): Promise<ReloadAnswer | null>;
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
/** How often a worker that ends before it listens is waited for. */
const MAX_TRIES = 5;
/** Exit codes of a worker that has said on standard error why it cannot start: the next one would say the same. */
const TOLD_CODES: ReadonlySet<number> = new Set([EXIT.failed, EXIT.usage, EXIT.configuration]);
/** How long the others may take to end when one of them could not start. */
const FAILED_GRACE_MS = 5000;
/** How long a worker's answer to a reload is waited for: it may have to start a program, which has 10 s. */
const ANSWER_MS = 20_000;
/** A worker that was up for so long is started again as if it had never failed. */
const STEADY_MS = 60_000;

/** Keeps a number of workers alive: one that ends is started again, each time later, until all are told to stop. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, WorkerProcess>();
  readonly #listened = new WeakSet<WorkerProcess>();
  readonly #stopped = new AbortController();
  readonly #keeping: Promise<void>[] = [];
  #url: string | null = null;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /**
   * Starts the first worker and then, on its port, the others; resolves once each of them has listened, or has failed
   * `MAX_TRIES` times and is tried on. The pool fails when the first one says itself that it cannot start, as with a wrong
   * configuration, or ends otherwise as often.
   */
  async start(): Promise<PoolStart> {
    const { code, url } = await this.#startFirst();
    if (url === null) {
      await this.stop("SIGINT", FAILED_GRACE_MS);
      return { code };
    }
    this.#url = url;
    const settled: Promise<void>[] = [];
    for (let number = 1; number <= this.#options.count; number++) {
      if (this.#stopped.signal.aborted) break;
      if (number > 1) this.#spawn(number);
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#keeping.push(this.#keep(number, resolve).finally(resolve));
      settled.push(promise);
    }
    await Promise.all(settled);
    return { url };
  }

  /** Passes the signal on, waits up to `graceMs` for all to end, and kills what is left. Gives their exit codes. */
  async stop(signal: "SIGINT" | "SIGTERM", graceMs: number): Promise<number[]> {
    this.#stopped.abort();
    const workers = [...this.#workers.values()];
    for (const worker of workers) worker.signal(signal);
    const ended = Promise.all(workers.map((worker) => worker.exited));
    if (!await doneWithin(this.#options.clock, graceMs, ended)) this.kill();
    const codes = await ended;
    await Promise.all(this.#keeping);
    return codes;
  }

  /**
   * Gives a configuration that was loaded again to one worker, and once that has taken it over, to the others: `onTaken` is
   * called in between, so that workers that are started later begin with it. Throws `invalid_configuration` when that one
   * refuses it: no other worker gets it then. Without a worker that answers it counts unchecked, as it may be what helps.
   */
  async reload(loaded: LoadedConfig, onTaken: () => void): Promise<void> {
    const asked = new Set<WorkerProcess>();
    for (const worker of [...this.#workers.values()]) {
      asked.add(worker);
      const answer = await this.#offer(worker, loaded);
      if (answer === null) continue;
      if (answer.refusal !== null) throw new HubError("invalid_configuration", answer.refusal);
      break;
    }
    onTaken();
    for (const [number, worker] of this.#workers) {
      if (!asked.has(worker)) void this.#offerLate(number, worker, loaded);
    }
  }

  /** Kills all workers at once. */
  kill(): void {
    this.#stopped.abort();
    for (const worker of this.#workers.values()) worker.signal("SIGKILL");
  }

  /** The worker's answer; null when there is none in time. */
  async #offer(worker: WorkerProcess, loaded: LoadedConfig): Promise<ReloadAnswer | null> {
    const answer = worker.reload(loaded);
    return await doneWithin(this.#options.clock, ANSWER_MS, answer) ? await answer : null;
  }

  /** Gives a worker what another one has taken over, and logs when it refuses that. */
  async #offerLate(number: number, worker: WorkerProcess, loaded: LoadedConfig): Promise<void> {
    const answer = await worker.reload(loaded);
    if (answer === null || answer.refusal === null) return;
    const facts = { worker: number, pid: worker.pid, reason: answer.refusal };
    this.#options.log.error("A worker refused a configuration that another took over", facts);
  }

  #spawn(number: number): WorkerProcess {
    const worker = this.#options.spawn(number, this.#url);
    this.#workers.set(number, worker);
    void worker.ready.then((url) => {
      if (url === null) return;
      this.#listened.add(worker);
      this.#options.log.info("A worker listens", { worker: number, pid: worker.pid });
    });
    return worker;
  }

  /** The address of the first worker, which finds the port; null with an exit code when it does not start. */
  async #startFirst(): Promise<{ url: string | null; code: number }> {
    let pauseMs = FIRST_PAUSE_MS;
    for (let tries = 1;; tries++) {
      const worker = this.#spawn(1);
      const url = await worker.ready;
      if (url !== null) return { url, code: 0 };
      const code = await worker.exited;
      const isOver = this.#stopped.signal.aborted || TOLD_CODES.has(code) || tries === MAX_TRIES;
      this.#tellDeath({ number: 1, worker, code, pauseMs: isOver ? null : pauseMs });
      if (isOver) return { url: null, code };
      await this.#pause(pauseMs);
      pauseMs *= 2;
    }
  }

  /** Starts the worker again whenever it ends. `onSettled` is called once it has listened, or failed too often to be waited for. */
  async #keep(number: number, onSettled: () => void): Promise<void> {
    const { clock } = this.#options;
    const stopped = this.#stopped.signal;
    let pauseMs = FIRST_PAUSE_MS;
    let sinceMs = clock.monotonic();
    for (let tries = 1;; tries++) {
      const worker = this.#workers.get(number);
      void worker?.ready.then((url) => {
        if (url !== null) onSettled();
      });
      const code = await worker?.exited;
      if (stopped.aborted) return;
      if (tries === MAX_TRIES) onSettled();
      if (clock.monotonic() - sinceMs >= STEADY_MS) pauseMs = FIRST_PAUSE_MS;
      this.#tellDeath({ number, worker, code, pauseMs });
      await this.#pause(pauseMs);
      if (stopped.aborted) return;
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      sinceMs = clock.monotonic();
      this.#spawn(number);
    }
  }

  #tellDeath({ number, worker, code, pauseMs }: {
    number: number;
    worker: WorkerProcess | undefined;
    code: number | undefined;
    pauseMs: number | null;
  }): void {
    if (this.#stopped.signal.aborted) return;
    const facts = {
      ...{ worker: number, pid: worker?.pid, code, why: whyOf(code) },
      hasListened: worker !== undefined && this.#listened.has(worker),
    };
    if (pauseMs === null) this.#options.log.error("A worker did not start", facts);
    else this.#options.log.error("A worker ended and is started again", { ...facts, pauseMs });
  }

  async #pause(pauseMs: number): Promise<void> {
    await sleep(this.#options.clock, pauseMs, this.#stopped.signal).catch(() => {});
  }
}

/** What an exit code says; its own words are on standard error. */
function whyOf(code: number | undefined): string {
  if (code === undefined || code < 128) return "it ended by itself: its last words are on stderr";
  const signal = code - 128;
  return signal === 9
    ? "killed (SIGKILL): by the kernel when memory ran out, or by someone"
    : `ended by signal ${signal}`;
}
