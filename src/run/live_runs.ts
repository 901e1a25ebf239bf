import type { Clock } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import { createFold } from "../core/fold.ts";
import type { Log } from "../core/log.ts";
import type { LoopBatch } from "../inference/loop_batch.ts";
import { commitRuns } from "../store/commit_runs.ts";
import type { Database } from "../store/database.ts";
import { listStopRequests, readRun, renewLeases } from "../store/runs.ts";
import { Broadcast } from "./broadcast.ts";
import { CommitQueue } from "./commit_queue.ts";
import { LeaseKeeper } from "./lease_keeper.ts";
import type { LiveRun } from "./live_run.ts";
import { type RecordedRun, Recorder } from "./recorder.ts";

/** What driving runs needs. */
export interface LiveRunsOptions {
  db: Database;
  clock: Clock;
  log: Log;
  leaseMs: number;
  /** Called after each commit of a run's events. */
  onCommitted?(runId: string): void;
  /** Called once for each run that ended here, with what its log says. */
  onEnd?(run: LiveRun): void;
}

const FLUSH_MS = 200;
const STOP_REQUESTED = "stop requested";

/** The runs that this replica drives. Independent of any client: a lost reader neither stops nor changes a run. */
export class LiveRuns {
  readonly #options: LiveRunsOptions;
  readonly #runs = new Map<string, LiveRun>();
  readonly #queue: CommitQueue;
  readonly #leases: LeaseKeeper;

  constructor(options: LiveRunsOptions) {
    const { db, clock, log, leaseMs } = options;
    this.#options = options;
    const onStop = (runId: string) => this.stop(runId, STOP_REQUESTED);
    const onLost = (runId: string, error: HubError) => this.#lose(runId, error);
    this.#leases = new LeaseKeeper({
      renew: (runs) => renewLeases(db, { runs, leaseMs }),
      onStop,
      onLost,
      clock,
      log,
      leaseMs,
    });
    this.#queue = new CommitQueue({
      write: (commits) => commitRuns(db, { commits, leaseMs }),
      async isWritten({ tenantId, runId, epoch, events }) {
        const run = await readRun(db, { tenantId, runId });
        const last = events.at(-1);
        return run !== null && run.epoch === epoch && last !== undefined &&
          run.lastSeq === last.seq;
      },
      onCommitted: (runId, lastSeq, { stopRequested }) => {
        this.#runs.get(runId)?.broadcast.committed(lastSeq);
        this.#leases.renewed(runId);
        options.onCommitted?.(runId);
        if (stopRequested) onStop(runId);
      },
      onLost,
      clock,
      log,
      flushMs: FLUSH_MS,
      patienceMs: leaseMs * 2 / 3,
    });
  }

  /** The run, when this replica drives it. */
  get(runId: string): LiveRun | undefined {
    return this.#runs.get(runId);
  }

  /** How many runs are driven here. */
  get size(): number {
    return this.#runs.size;
  }

  /** Drives a run that is ours: `begin` makes the loop. Returns at once. */
  drive(
    record: RecordedRun,
    begin: (signal: AbortSignal) => AsyncGenerator<LoopBatch, void, void>,
  ): LiveRun {
    const broadcast = new Broadcast();
    const fold = createFold();
    const abort = new AbortController();
    const recorder = new Recorder(record, { queue: this.#queue, broadcast, fold });
    const started = Promise.withResolvers<LiveRun>();
    const done = started.promise.then((run) => this.#drive(run, { recorder, begin }));
    const run: LiveRun = { record, broadcast, fold, abort, done };
    this.#runs.set(record.runId, run);
    this.#leases.hold(record);
    started.resolve(run);
    return run;
  }

  /** Stops a run that is driven here; false when it is not. */
  stop(runId: string, reason: string): boolean {
    const run = this.#runs.get(runId);
    run?.abort.abort(reason);
    return run !== undefined;
  }

  /** Looks which of these runs were asked to stop, through another replica perhaps, and stops them; all when left out. */
  async checkStops(runIds: Iterable<string> = this.#runs.keys()): Promise<void> {
    const runs = [...runIds].flatMap((runId) => this.#runs.get(runId)?.record ?? []);
    if (runs.length === 0) return;
    try {
      const stopped = await listStopRequests(this.#options.db, runs);
      for (const runId of stopped) this.stop(runId, STOP_REQUESTED);
    } catch (error) {
      this.#options.log.warn("Stop requests were not read", { error: toHubError(error) });
    }
  }

  /** Stops all runs and waits for their ends to be written. */
  async close(reason: string): Promise<void> {
    const runs = [...this.#runs.values()];
    for (const run of runs) run.abort.abort(reason);
    await Promise.all(runs.map((run) => run.done));
    await this.#queue.drain();
    this.#leases.close();
  }

  async #drive(
    run: LiveRun,
    { recorder, begin }: {
      recorder: Recorder;
      begin: (signal: AbortSignal) => AsyncGenerator<LoopBatch, void, void>;
    },
  ): Promise<void> {
    const { runId } = run.record;
    const loop = begin(run.abort.signal);
    try {
      for await (const batch of loop) await recorder.record(batch);
      run.broadcast.end();
    } catch (error) {
      const failure = toHubError(error);
      this.#options.log.error("A run ended without its last event", { runId, error: failure });
      run.abort.abort(failure);
      await loop.return().catch(() => {});
      run.broadcast.fail(failure);
    } finally {
      this.#queue.drop(runId);
      this.#leases.release(runId);
      this.#runs.delete(runId);
      this.#options.onEnd?.(run);
    }
  }

  /** The run's log cannot be written from here any more: the loop ends at its next write, which is refused. */
  #lose(runId: string, error: HubError): void {
    const run = this.#runs.get(runId);
    if (run === undefined) return;
    run.abort.abort(error);
    run.broadcast.fail(error);
    run.record.epoch = -1;
  }
}
