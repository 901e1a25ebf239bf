import { isTransient, isTransition, type SequencedEvent } from "../core/event.ts";
import type { HubEvent } from "../core/event.ts";
import type { Fold } from "../core/fold.ts";
import { isEnd } from "../inference/terminal.ts";
import type { LoopBatch } from "../inference/loop_batch.ts";
import { readSteering } from "../core/steering.ts";
import type { RunCommit, RunFinish, SteeringRow } from "../store/run_commit.ts";
import type { BegunCall } from "../store/usage_rows.ts";
import type { EncodedUsageRow } from "../store/usage_rows.ts";
import type { Broadcast } from "./broadcast.ts";
import type { CommitQueue } from "./commit_queue.ts";
import type { SteeringInbox } from "./steering_inbox.ts";
import { storableEvent } from "./storable_event.ts";

/** Which run is written, and with which right. */
export interface RecordedRun {
  tenantId: string;
  sessionId: string;
  runId: string;
  messageId: string;
  /** Name of its agent. */
  agent: string;
  /** Fencing token of the lease. */
  epoch: number;
  /** Monotonic time at which Postgres was asked for the lease, from which it counts; now when left out. */
  leasedMs?: number;
  /** Last sequence number that was given to an event. */
  lastSeq: number;
  /** Last sequence number that Postgres has confirmed; `lastSeq` when left out. */
  committedSeq?: number;
  /** Last number that may be sent before it is committed. */
  reservedTo: number;
}

/** Numbers reserved ahead of the log, so that a takeover never reuses one that a client has seen. */
export const SEQ_BLOCK = 4096;

/** Gives the usage rows and the begun calls of a run that might not be written yet, each once. */
export type UsageOf = (runId: string) => UnwrittenUsage;

/** Usage of a run's model calls: of those that ended, and those that were sent. Left out where there is none. */
export interface UnwrittenUsage {
  usage?: readonly EncodedUsageRow[];
  calls?: readonly BegunCall[];
}

/**
 * The only writer of a run's events, message and parts. Transitions are committed and then sent; deltas are sent
 * at once and committed with the next batch. Parts are stored at transitions: the log alone grows while one streams,
 * since storing it with each batch would write it whole each time.
 */
export class Recorder {
  readonly #run: RecordedRun;
  readonly #queue: CommitQueue;
  readonly #broadcast: Broadcast;
  readonly #fold: Fold;
  readonly #steering: Pick<SteeringInbox, "known">;
  readonly #usageOf: UsageOf | undefined;
  /** The last number that was handed to the queue: where the log must end when the next commit is written. */
  #handedSeq: number;

  constructor(
    run: RecordedRun,
    parts: {
      queue: CommitQueue;
      broadcast: Broadcast;
      fold: Fold;
      steering: Pick<SteeringInbox, "known">;
      usageOf?: UsageOf | undefined;
    },
  ) {
    this.#usageOf = parts.usageOf;
    this.#run = run;
    this.#handedSeq = run.committedSeq ?? run.lastSeq;
    this.#queue = parts.queue;
    this.#broadcast = parts.broadcast;
    this.#fold = parts.fold;
    this.#steering = parts.steering;
  }

  /** Takes a batch of the loop. Resolves when its transitions are durable, but for an end that is held; rejects with `lease_lost` or `database_unavailable`. */
  async record(batch: LoopBatch): Promise<void> {
    const durable: SequencedEvent[] = [];
    const end: HubEvent[] = [];
    const steering: SteeringRow[] = [];
    let mustCommit = batch.calls !== undefined || batch.steps !== undefined ||
      batch.pause !== undefined;
    for (const raw of batch.events) {
      const event = storableEvent(raw);
      if (isTransient(event)) {
        this.#broadcast.sendTransient(event);
        continue;
      }
      if (isEnd(event)) end.push(event);
      else this.#fold.apply(event);
      const said = event.type === "data" ? readSteering(event) : null;
      if (said !== null) steering.push({ steeringId: said.steeringId, state: said.state });
      durable.push({ seq: ++this.#run.lastSeq, event });
      mustCommit ||= isTransition(event);
    }
    if (durable.length === 0 && !mustCommit) return;
    const follows = this.#handedSeq;
    const commit = this.#commitOf(durable, batch, {
      ...{ end, steering, follows, withParts: mustCommit },
    });
    this.#handedSeq = durable.at(-1)?.seq ?? follows;
    if (mustCommit || this.#run.lastSeq > this.#run.reservedTo) {
      const { isHeld } = await this.#queue.commit(commit);
      this.#run.reservedTo = commit.reserveTo;
      if (isHeld === true) {
        this.#run.lastSeq -= durable.splice(-end.length).length;
        this.#handedSeq = durable.at(-1)?.seq ?? follows;
      } else for (const event of end) this.#fold.apply(event);
      this.#broadcast.send(durable, true);
    } else {
      this.#broadcast.send(durable, false);
      this.#queue.add(commit);
    }
  }

  #commitOf(
    events: SequencedEvent[],
    batch: LoopBatch,
    { end, steering, follows, withParts }: {
      end: readonly HubEvent[];
      steering: SteeringRow[];
      follows: number;
      withParts: boolean;
    },
  ): RunCommit {
    const { tenantId, sessionId, runId, messageId, epoch, lastSeq } = this.#run;
    const unwritten = withParts ? this.#usageOf?.(runId) ?? {} : {};
    return {
      tenantId,
      sessionId,
      runId,
      messageId,
      epoch,
      follows,
      events,
      reserveTo: lastSeq + SEQ_BLOCK,
      parts: withParts ? this.#fold.takeChangedParts() : [],
      steps: batch.steps ?? [],
      toolCalls: batch.calls ?? [],
      ...(steering.length === 0 ? {} : { steering }),
      ...(batch.approvals === undefined ? {} : { approvals: batch.approvals }),
      ...(batch.questions === undefined ? {} : { questions: batch.questions }),
      ...(batch.pause === undefined ? {} : { pause: batch.pause }),
      ...unwritten,
      ...finishOf(end, this.#steering.known),
    };
  }
}

function finishOf(
  end: readonly HubEvent[],
  steered: number,
): { finish?: RunFinish; steered?: number } {
  const event = end.find((event) => event.type === "finish");
  if (event === undefined) return {};
  const error = end.find((event) => event.type === "error");
  const abort = end.find((event) => event.type === "abort");
  const status = event.finishReason === "error"
    ? "failed"
    : event.finishReason === "aborted"
    ? "cancelled"
    : event.finishReason === "waiting"
    ? "waiting"
    : "completed";
  return {
    steered,
    finish: {
      status,
      finishReason: event.finishReason,
      usage: event.usage,
      costMicros: event.costMicros,
      provider: event.metadata.provider,
      model: event.metadata.model,
      ...(error === undefined ? {} : { error: toRunError(error) }),
      ...(abort === undefined ? {} : { abortReason: abort.reason }),
    },
  };
}

function toRunError({ code, errorText, retryable }: Extract<HubEvent, { type: "error" }>) {
  return { code, message: errorText, retryable };
}
