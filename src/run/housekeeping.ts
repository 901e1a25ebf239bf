import { type Clock, doneWithin, type Timer } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { pruneGrants } from "../store/approval_grants.ts";
import { pruneClientSecrets } from "../store/client_secrets.ts";
import type { Database } from "../store/database.ts";
import { pruneAuthorizations, pruneRevokedOwners } from "../store/mcp_authorizations.ts";
import { pruneMoney, sweepReservations } from "../store/settle_budgets.ts";
import { pruneAnswers } from "../store/idempotency.ts";
import { pruneEvents } from "../store/prune_events.ts";
import { pruneMcpCalls } from "../store/mcp_calls.ts";
import { pruneResponses } from "../store/responses.ts";
import { expireApprovals } from "./approvals.ts";
import { bookLostCalls } from "./orphaned_call.ts";
import { takeOverAbandoned, type TakeOverOptions } from "./take_over.ts";

/** What a replica does for the runs of all. */
export interface Housekeeping {
  /** Looks for abandoned runs now: there may be some. */
  lookForRuns(): void;
  /** Stops runs of ended keys now: a key has just ended. */
  lookForEndedKeys(): void;
  /** Ends it; what is being taken over is taken or left by then. */
  stop(): Promise<void>;
}

const HOUR_MS = 3_600_000;
/** How soon at most a reservation whose lease has run out is freed. */
const SWEEP_MS = 5000;
/** How soon at most a begun model call is booked whose run is over or another replica's. */
const LOST_CALLS_MS = 30_000;

/** How soon at most the response cache is back within its size. */
const PRUNE_CACHE_MS = 60_000;
/** How soon at most a question expires whose time is over. */
const EXPIRE_MS = 1000;

/** How soon at most a run whose lease has run out is claimed. */
const MAX_CLAIM_MS = 5000;
/** How long a stop waits for a takeover that is under way, and for any other work; Postgres may be away. */
const STOP_MS = 5000;
const STOP_PRUNING_MS = 1000;

/** Takes abandoned runs over, prunes event logs, kept answers and kept responses every hour. */
export function startHousekeeping(
  options: {
    db: Database;
    clock: Clock;
    log: Log;
    takeOver: TakeOverOptions;
    leaseMs: number;
    retentionHours: number;
    /** Drops answers of the response cache that are too old or too many. */
    pruneCache?(): Promise<void>;
    /** Forgets credentials of runs that nobody came back for. */
    sweepHanded?(): void;
    /** Stops runs that the run above does not wait for any more; gives how many. */
    stopDeserted?(): Promise<number>;
    /** Stops runs whose API key has ended; gives how many. */
    stopRunsOfEndedKeys?(): Promise<number>;
    /** Called when reservations of calls were freed whose replica is gone. */
    onExpired?(): void;
    /** Called when runs may go on since nobody has answered their questions in time. */
    onClaimable?(): void;
  },
): Housekeeping {
  const { db, clock, log } = options;
  const claimMs = Math.min(MAX_CLAIM_MS, options.leaseMs / 3);
  const claiming: Chore = new Chore({
    everyMs: claimMs,
    work: () => takeOverAbandoned(options.takeOver, () => claiming.isStopped),
    onError: (error) => log.warn("Taking runs over failed", { error }),
    clock,
  });
  const sweep = async () => {
    const freed = await sweepReservations(db);
    if (freed === 0) return;
    log.warn("Reservations of lost calls were freed", { freed });
    options.onExpired?.();
  };
  const expire = async () => {
    if (await expireApprovals(db) === 0) return;
    options.onClaimable?.();
    claiming.now();
  };
  const bookLost = async () => {
    const booked = await bookLostCalls(db, options.takeOver.recordUsage);
    if (booked > 0) log.warn("Model calls of lost replicas were booked", { booked });
  };
  const stopDeserted = async () => {
    const stopped = await options.stopDeserted?.() ?? 0;
    if (stopped > 0) log.warn("Runs were stopped that the runs above had left", { stopped });
  };
  const stopEnded = new Chore({
    everyMs: SWEEP_MS,
    async work() {
      const stopped = await options.stopRunsOfEndedKeys?.() ?? 0;
      if (stopped > 0) log.warn("Runs were stopped whose API key has ended", { stopped });
    },
    onError: (error) => log.warn("Stopping runs of ended API keys failed", { error }),
    clock,
  });
  const pruning = [
    { what: "questions whose time is over", work: expire, everyMs: EXPIRE_MS },
    {
      what: "credentials of runs that wait",
      work: () => Promise.resolve(options.sweepHanded?.()),
      everyMs: SWEEP_MS,
    },
    { what: "runs that nobody waits for", work: stopDeserted, everyMs: SWEEP_MS },
    { what: "reservations", work: sweep, everyMs: SWEEP_MS },
    { what: "model calls of lost replicas", work: bookLost, everyMs: LOST_CALLS_MS },
    { what: "settled reservations", work: () => pruneMoney(db) },
    { what: "former keys of providers", work: () => pruneClientSecrets(db) },
    { what: "authorizations that were begun", work: () => pruneAuthorizations(db) },
    { what: "authorizations of revoked keys", work: () => pruneRevokedOwners(db) },
    { what: "approvals that hold no more", work: () => pruneGrants(db) },
    { what: "calls of MCP servers", work: () => pruneMcpCalls(db) },
    { what: "event logs", work: () => pruneEvents(db, options.retentionHours) },
    { what: "kept answers", work: () => pruneAnswers(db) },
    { what: "kept responses", work: () => pruneResponses(db) },
    ...options.pruneCache === undefined
      ? []
      : [{ what: "cached answers", work: options.pruneCache, everyMs: PRUNE_CACHE_MS }],
  ].map(({ what, work, everyMs = HOUR_MS }) =>
    new Chore({
      everyMs,
      work,
      onError: (error) => log.warn(`Pruning ${what} failed`, { error }),
      clock,
    })
  );
  claiming.now();
  const chores = [stopEnded, ...pruning];
  for (const chore of chores) chore.now();
  return {
    lookForRuns: () => claiming.now(),
    lookForEndedKeys: () => stopEnded.now(),
    async stop() {
      const stopped = Promise.all(chores.map((chore) => chore.stop()));
      await Promise.all([
        doneWithin(clock, STOP_MS, claiming.stop()),
        doneWithin(clock, STOP_PRUNING_MS, stopped),
      ]);
    },
  };
}

interface ChoreOptions {
  everyMs: number;
  work(): Promise<unknown>;
  /** Not called once it is stopped: what ends behind it takes the database away from work under way. */
  onError(error: unknown): void;
  clock: Clock;
}

/** Work that is done again and again, once at a time, and at once when somebody asks. */
class Chore {
  readonly #options: ChoreOptions;
  #timer: Timer = null;
  #doing: Promise<void> | null = null;
  #isWanted = false;
  #stopped = false;

  constructor(options: ChoreOptions) {
    this.#options = options;
  }

  get isStopped(): boolean {
    return this.#stopped;
  }

  /** Does it now, or once more when it is being done. */
  now(): void {
    if (this.#stopped) return;
    this.#isWanted = true;
    if (this.#doing !== null) return;
    this.#options.clock.clearTimer(this.#timer);
    this.#doing = this.#do();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.clock.clearTimer(this.#timer);
    await this.#doing;
  }

  async #do(): Promise<void> {
    const { work, onError, everyMs, clock } = this.#options;
    while (this.#isWanted && !this.#stopped) {
      this.#isWanted = false;
      await work().catch((error) => {
        if (!this.#stopped) onError(error);
      });
    }
    this.#doing = null;
    if (!this.#stopped) this.#timer = clock.setTimer(() => this.now(), everyMs);
  }
}
