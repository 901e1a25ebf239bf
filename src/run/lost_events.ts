import type { Clock } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import { createFold } from "../core/fold.ts";
import type { Log } from "../core/log.ts";
import { lostEvent } from "../core/lost_events.ts";
import { commitRuns } from "../store/commit_runs.ts";
import type { Database } from "../store/database.ts";
import { claimAfterLoss, readLoggedTo } from "../store/lost_events.ts";
import { readRun, releaseLease, type RunKey, type StoredRun } from "../store/runs.ts";
import { readOpenCalls } from "../store/tool_calls.ts";
import { endAbandoned } from "./end_abandoned.ts";
import { hasEnded } from "./look_at_log.ts";
import { SEQ_BLOCK } from "./recorder.ts";
import { readLog, replayRecorded } from "./stored_log.ts";
import { untilAnswered } from "./until_answered.ts";

/** A run that this replica drove until its lease was lost. */
export interface LeftRun extends RunKey {
  /** The epoch under which it was written. */
  epoch: number;
  /** The last number that Postgres has confirmed. */
  committedSeq: number;
  /** The last number that may have been shown to readers. */
  shownSeq: number;
  /** Tools with effects that were begun, by call. */
  acted: ReadonlyMap<string, string>;
}

interface LostEventsOptions {
  db: Database;
  clock: Clock;
  log: Log;
  leaseMs: number;
  /** Called after events of a run were committed. */
  onCommitted?(runId: string): void;
  /** Called for each run that may be claimed. */
  onLeft?(): void;
}

/** How often a run is read again that changes meanwhile. */
const MAX_TRIES = 5;

/**
 * Finds runs whose confirmed events Postgres has lost, as after a failover to a standby that was behind, once their lease
 * is lost here. Such a run gets an `events-lost` event behind all numbers that were shown, so that readers know that what
 * they have is void, and is left to be taken over from what the log still has. It ends instead when a tool with effects
 * was begun of which the journal knows nothing any more: it would be called again.
 */
export class LostEventsWatch {
  readonly #options: LostEventsOptions;
  readonly #looks = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();

  constructor(options: LostEventsOptions) {
    this.#options = options;
  }

  /** Compares the log with what was confirmed, as soon as Postgres answers. Returns at once. */
  look(run: LeftRun): void {
    const { log } = this.#options;
    const look = this.#mend(run)
      .catch((error: unknown) => {
        if (this.#closing.signal.aborted) return;
        log.warn("Whether Postgres has lost events of a run was not found out", {
          runId: run.runId,
          error: toHubError(error),
        });
      })
      .finally(() => {
        if (this.#looks.get(run.runId) === look) this.#looks.delete(run.runId);
      });
    this.#looks.set(run.runId, look);
  }

  /** Resolves when no look at this run is under way. */
  async settled(runId: string): Promise<void> {
    await this.#looks.get(runId);
  }

  /** Waits for no database that is away any longer. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#looks.values());
  }

  async #mend(run: LeftRun): Promise<void> {
    const { db, clock } = this.#options;
    const { signal } = this.#closing;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const isDone = await untilAnswered(() => this.#mendOnce(run), { clock, signal });
      if (isDone) return;
    }
    const stored = await readRun(db, run);
    this.#tell(run, { storedSeq: stored?.lastSeq ?? null, outcome: "driven by another replica" });
  }

  /** False when the run has changed meanwhile. */
  async #mendOnce(run: LeftRun): Promise<boolean> {
    const { db, leaseMs, log, onCommitted, onLeft } = this.#options;
    const { tenantId, runId, epoch, committedSeq } = run;
    const key = { tenantId, runId };
    const stored = await readRun(db, key);
    // A run that is gone was deleted with its session, or was lost whole: its readers get 404 either way.
    if (stored === null) return true;
    const loggedTo = await readLoggedTo(db, { ...key, epoch, seq: committedSeq });
    if (loggedTo >= committedSeq) return true;
    if (hasEnded(stored)) {
      // A pruned log has lost nothing, and readers of a run that ended are told by their cursors.
      if (stored.lastSeq < committedSeq) this.#tell(run, { storedSeq: loggedTo, outcome: "ended" });
      return true;
    }
    const { epoch: storedEpoch, lastSeq: storedSeq } = stored;
    const claimed = await claimAfterLoss(db, { ...key, storedEpoch, storedSeq, epoch, leaseMs });
    if (claimed === null) return false;
    const claim = { ...key, epoch: claimed };
    const unknown = await this.#markLoss(run, stored, { loggedTo, epoch: claimed });
    if (unknown.length === 0) {
      this.#tell(run, { storedSeq: loggedTo, outcome: "restarted" });
      await releaseLease(db, claim);
      onLeft?.();
    } else {
      this.#tell(run, { storedSeq: loggedTo, outcome: "failed", calls: unknown });
      const errorText =
        `Postgres has lost the last events of this run, and with them the outcome of ${
          unknown.join(", ")
        }: inspect what was done before you repeat it`;
      const why = { code: "interrupted", errorText };
      await endAbandoned(db, { ...claim, poisoned: false, lost: false }, { leaseMs, log, why });
    }
    onCommitted?.(runId);
    return true;
  }

  /** Writes the event that tells readers; gives the tools with effects of which the journal knows nothing any more. */
  async #markLoss(
    run: LeftRun,
    stored: StoredRun,
    { loggedTo, epoch }: { loggedTo: number; epoch: number },
  ): Promise<string[]> {
    const { db, leaseMs } = this.#options;
    const { tenantId, runId, shownSeq } = run;
    const key = { tenantId, runId };
    const { sessionId, messageId, model, lastSeq } = stored;
    const [whole, openCalls] = await Promise.all([readLog(db, key), readOpenCalls(db, key)]);
    const fold = createFold();
    replayRecorded(fold, whole.map(({ event }) => event));
    const throughSeq = Math.max(stored.reservedTo, shownSeq);
    const start: HubEvent = { type: "start", messageId, runId, sessionId, model };
    const head = lastSeq === 0 ? [{ seq: 1, event: start }] : [];
    for (const { event } of head) fold.apply(event);
    const told = lostEvent({ afterSeq: Math.max(loggedTo, head.length), throughSeq });
    fold.apply(told);
    await commitRuns(db, {
      commits: [{
        ...key,
        sessionId,
        messageId,
        epoch,
        follows: lastSeq,
        events: [...head, { seq: throughSeq + 1, event: told }],
        reserveTo: throughSeq + SEQ_BLOCK,
        parts: fold.takeChangedParts(),
        steps: [],
        toolCalls: [],
      }],
      leaseMs,
    });
    const begun = new Set(
      openCalls.flatMap(({ toolCallId, state }) => state === "started" ? [toolCallId] : []),
    );
    return [...run.acted].flatMap(([toolCallId, toolName]) => {
      const state = fold.toolPart(toolCallId)?.state;
      const isKnown = begun.has(toolCallId) || state === "result" || state === "error";
      return isKnown ? [] : [toolName];
    });
  }

  #tell(run: LeftRun, facts: Record<string, unknown>): void {
    const { runId, committedSeq } = run;
    this.#options.log.error("Postgres has lost events of a run that it had confirmed", {
      runId,
      confirmedSeq: committedSeq,
      ...facts,
    });
  }
}
