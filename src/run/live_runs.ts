import { type Clock, doneWithin } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import { createFold } from "../core/fold.ts";
import type { Log } from "../core/log.ts";
import { commitRuns } from "../store/commit_runs.ts";
import type { Database } from "../store/database.ts";
import type { OwnedRun, RunCommit } from "../store/run_commit.ts";
import { listRequests, readRun, releaseLease, renewLeases } from "../store/runs.ts";
import { readPendingSteering } from "../store/steering.ts";
import { Broadcast } from "./broadcast.ts";
import { CommitQueue, type CommitVerdict } from "./commit_queue.ts";
import { LeaseKeeper } from "./lease_keeper.ts";
import type { BeginLoop, DriveOptions, LeaveOptions, LiveRun } from "./live_run.ts";
import { LostEventsWatch } from "./lost_events.ts";
import { type RecordedRun, Recorder, type UsageOf } from "./recorder.ts";
import { SteeringInbox } from "./steering_inbox.ts";
import { StepWatch } from "./step_watch.ts";
import { levelOfLoss } from "./level_of_loss.ts";
import { replayRecorded } from "./stored_log.ts";

/** What driving runs needs. */
export interface LiveRunsOptions {
  db: Database;
  clock: Clock;
  log: Log;
  leaseMs: number;
  usageOf?: UsageOf;
  /** Called after each commit of a run's events. */
  onCommitted?(runId: string): void;
  /** Called for each run that was left to other replicas. */
  onLeft?(): void;
  /** Called for each run that waits for people from now on, or goes on at once wherever it is claimed. */
  onPaused?(): void;
  /** Called once for each run that ended here, with what its log says. */
  onEnd?(run: LiveRun): void;
}

const FLUSH_MS = 200;
/** How often is looked whether a run that is to be left still says something. */
const LOOK_MS = 100;
/** The epoch of nobody. */
const LOST = -1;
const STOP_REQUESTED = "stop requested";

/** The runs that this replica drives. Independent of any client: a lost reader neither stops nor changes a run. */
export class LiveRuns {
  readonly #options: LiveRunsOptions;
  readonly #runs = new Map<string, LiveRun>();
  readonly #queue: CommitQueue;
  readonly #leases: LeaseKeeper;
  readonly #lost: LostEventsWatch;
  #leaving = false;

  constructor(options: LiveRunsOptions) {
    const { db, clock, log, leaseMs } = options;
    this.#options = options;
    this.#lost = new LostEventsWatch(options);
    const onLost = (runId: string, error: HubError, epoch?: number) => {
      if (epoch === undefined || this.#runs.get(runId)?.record.epoch === epoch) {
        this.#lose(runId, error);
      }
    };
    this.#leases = new LeaseKeeper({
      renew: (runs) => renewLeases(db, { runs, leaseMs }),
      onRenewed: (runId, asked) => this.#heed(runId, asked),
      onLost,
      clock,
      log,
      leaseMs,
    });
    this.#queue = new CommitQueue({
      write: (commits) => commitRuns(db, { commits, leaseMs }),
      settle: (commit) => this.#settle(commit),
      onCommitted: ({ runId, lastSeq, verdict, leaseFromMs }) => {
        const run = this.#runs.get(runId);
        run?.broadcast.committed(lastSeq);
        if (run !== undefined && lastSeq > 0) run.record.committedSeq = lastSeq;
        if (leaseFromMs !== null) this.#leases.renewed(runId, leaseFromMs);
        options.onCommitted?.(runId);
        this.#heed(runId, verdict);
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

  /** Drives a run that is ours: `begin` makes the loop, `events` are what the run has said before. Returns at once. */
  drive(
    record: RecordedRun,
    begin: BeginLoop,
    options: DriveOptions = {},
  ): LiveRun {
    record.committedSeq ??= record.lastSeq;
    const broadcast = new Broadcast();
    const fold = createFold();
    replayRecorded(fold, options.events ?? []);
    const log = options.log ?? this.#options.log.with({ runId: record.runId });
    const abort = new AbortController();
    const { stopReason = options.stopRequested === true ? STOP_REQUESTED : null } = options;
    if (stopReason !== null) abort.abort(stopReason);
    const steering = new SteeringInbox({
      read: () => readPendingSteering(this.#options.db, record),
      steered: options.steered ?? 0,
      log,
    });
    const { usageOf } = this.#options;
    const recorder = new Recorder(record, {
      ...{ queue: this.#queue, broadcast, fold, steering, usageOf },
    });
    const started = Promise.withResolvers<LiveRun>();
    const done = started.promise.then((run) => this.#drive(run, { recorder, begin, log }));
    const watch = new StepWatch(this.#options.clock.monotonic());
    const parts = { record, broadcast, fold, abort, steering, watch, done };
    const run: LiveRun = { ...parts, isPaused: false };
    this.#runs.set(record.runId, run);
    this.#leases.hold(record);
    started.resolve(run);
    return run;
  }

  /** Lets a run go that this replica drives by mistake: its lease has run out, and it may be another's. */
  async lose(runId: string): Promise<void> {
    const run = this.#runs.get(runId);
    this.#lose(runId, new HubError("lease_lost", `The lease of ${runId} ran out`));
    await run?.done;
    await this.#lost.settled(runId);
  }

  /** Stops a run that is driven here; false when it is not. */
  stop(runId: string, reason: string): boolean {
    const run = this.#runs.get(runId);
    run?.abort.abort(reason);
    return run !== undefined;
  }

  /** Looks which of these runs were asked something, through another replica perhaps; all when left out. */
  async checkRequests(runIds: Iterable<string> = this.#runs.keys()): Promise<void> {
    const runs = [...runIds].flatMap((runId) => this.#runs.get(runId)?.record ?? []);
    if (runs.length === 0) return;
    try {
      const asked = await listRequests(this.#options.db, runs);
      for (const [runId, what] of asked) this.#heed(runId, what);
    } catch (error) {
      this.#options.log.warn("What runs were asked was not read", { error: toHubError(error) });
    }
  }

  /** True once this replica leaves its runs to others: each goes on to the end of its step. */
  get isLeaving(): boolean {
    return this.#leaving;
  }

  /**
   * Leaves all runs to other replicas, which may claim them at once: at the end of their steps, or in mid-step when they
   * say nothing for `silentMs` or when `graceMs` are over. A tool with effects is waited for, however silent. Rejects when
   * runs could not be released.
   */
  async leave(options: LeaveOptions): Promise<void> {
    this.#leaving = true;
    const fromMs = this.#options.clock.monotonic();
    // A request that was under way may have begun another one meanwhile.
    while (this.#runs.size > 0) await this.#leaveAll({ ...options, fromMs });
  }

  /** Stops all runs and waits for their ends to be written; on the way out they are left instead. */
  async close(reason: string): Promise<void> {
    const fromMs = this.#options.clock.monotonic();
    if (this.#leaving) await this.#leaveAll({ graceMs: 0, silentMs: 0, fromMs });
    const runs = [...this.#runs.values()];
    for (const run of runs) run.abort.abort(reason);
    await Promise.all(runs.map((run) => run.done));
    await this.#queue.drain();
    await this.#lost.close();
    this.#leases.close();
  }

  /** Leaves all runs as `leave` says. Rejects when some could not be left; their leases run out. */
  async #leaveAll(options: LeaveOptions & { fromMs: number }): Promise<void> {
    const runs = [...this.#runs.values()];
    const left = await Promise.allSettled(runs.map((run) => this.#leaveOne(run, options)));
    for (const end of left) if (end.status === "rejected") throw end.reason;
  }

  async #leaveOne(
    run: LiveRun,
    { graceMs, silentMs, fromMs }: LeaveOptions & { fromMs: number },
  ): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      const nowMs = clock.monotonic();
      const { isActing, spokeMs } = run.watch;
      const silentFromMs = Math.max(fromMs, spokeMs);
      if (nowMs - fromMs >= graceMs || (!isActing && nowMs - silentFromMs >= silentMs)) break;
      const waitMs = Math.min(LOOK_MS, fromMs + graceMs - nowMs);
      if (await doneWithin(clock, waitMs, run.done)) return;
    }
    const { epoch, ...record } = run.record;
    this.#lose(record.runId, leaving(record.runId));
    await run.done;
    await this.#release({ ...record, epoch });
  }

  async #release(run: RecordedRun): Promise<void> {
    await releaseLease(this.#options.db, run);
    this.#options.onLeft?.();
  }

  async #drive(
    run: LiveRun,
    { recorder, begin, log }: {
      recorder: Recorder;
      log: Log;
      begin: BeginLoop;
    },
  ): Promise<void> {
    const { tenantId, runId, epoch } = run.record;
    let loop: ReturnType<BeginLoop> | null = null;
    try {
      loop = begin(run.abort.signal, run.steering);
      for await (const batch of loop) {
        run.watch.saw(batch, this.#options.clock.monotonic());
        run.isPaused = batch.pause !== undefined;
        await recorder.record(batch);
      }
      if (run.isPaused) {
        run.broadcast.end();
        this.#options.onPaused?.();
      } else if (this.#leaving && run.fold.facts().finishReason === null) {
        // One that was lost is released by whoever let it go; one that was stopped too late is stopped elsewhere.
        if (run.record.epoch !== LOST) await this.#release(run.record);
        run.broadcast.fail(leaving(runId));
      } else run.broadcast.end();
    } catch (error) {
      run.isPaused = false;
      const failure = toHubError(error);
      if (this.#leaving && run.record.epoch === LOST) log.info("A run was left in mid-step");
      else {
        log[levelOfLoss(failure)]("A run ended without its last event", { error: failure });
      }
      run.abort.abort(failure);
      await loop?.return().catch(() => {});
      run.broadcast.fail(failure);
    } finally {
      this.#queue.drop(runId);
      this.#leases.release(runId);
      this.#runs.delete(runId);
      if (!run.isPaused) this.#options.onEnd?.(run);
      const { committedSeq = 0, lastSeq: shownSeq } = run.record;
      const isLost = !this.#leaving && !run.isPaused && run.fold.facts().finishReason === null;
      const left = { tenantId, runId, epoch, committedSeq, shownSeq, acted: run.watch.acted };
      if (isLost) this.#lost.look(left);
    }
  }

  #heed(runId: string, { stopRequested, steered }: OwnedRun): void {
    if (stopRequested) this.stop(runId, STOP_REQUESTED);
    this.#runs.get(runId)?.steering.tell(steered);
  }

  async #settle(commit: RunCommit): Promise<CommitVerdict | null> {
    const { tenantId, runId, epoch, events, finish, steered: known } = commit;
    const run = await readRun(this.#options.db, { tenantId, runId });
    if (run === null || run.epoch !== epoch) return null;
    const verdict = { stopRequested: false, steered: run.steered };
    const last = events.at(-1);
    if (last !== undefined && run.lastSeq === last.seq) return verdict;
    const isTold = finish !== undefined && known !== undefined && run.steered > known;
    return isTold && run.status === "running" ? { ...verdict, isHeld: true } : null;
  }

  /** The run's log cannot be written from here any more: the loop ends at its next write, which is refused. */
  #lose(runId: string, error: HubError): void {
    const run = this.#runs.get(runId);
    if (run === undefined) return;
    run.abort.abort(error);
    // One that has let itself go has lost nothing; whether it has, its last write says.
    if (!run.isPaused) run.broadcast.fail(error);
    run.record.epoch = LOST;
  }
}

function leaving(runId: string): HubError {
  return new HubError("shutting_down", `This replica stops; ${runId} goes on at another one`);
}
