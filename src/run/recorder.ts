import { isTransient, isTransition, type SequencedEvent } from "../core/event.ts";
import type { HubEvent } from "../core/event.ts";
import type { Fold } from "../core/fold.ts";
import type { LoopBatch } from "../inference/loop_batch.ts";
import type { RunCommit, RunFinish } from "../store/run_commit.ts";
import type { Broadcast } from "./broadcast.ts";
import type { CommitQueue } from "./commit_queue.ts";
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
  /** Last sequence number in the log. */
  lastSeq: number;
  /** Last number that may be sent before it is committed. */
  reservedTo: number;
}

/** Numbers reserved ahead of the log, so that a takeover never reuses one that a client has seen. */
export const SEQ_BLOCK = 4096;

/**
 * The only writer of a run's events, message and parts. Transitions are committed and then sent; deltas are sent
 * at once and committed with the next batch.
 */
export class Recorder {
  readonly #run: RecordedRun;
  readonly #queue: CommitQueue;
  readonly #broadcast: Broadcast;
  readonly #fold: Fold;

  constructor(
    run: RecordedRun,
    parts: { queue: CommitQueue; broadcast: Broadcast; fold: Fold },
  ) {
    this.#run = run;
    this.#queue = parts.queue;
    this.#broadcast = parts.broadcast;
    this.#fold = parts.fold;
  }

  /** Takes a batch of the loop. Resolves when its transitions are durable; rejects with `lease_lost` or `database_unavailable`. */
  async record(batch: LoopBatch): Promise<void> {
    const durable: SequencedEvent[] = [];
    let mustCommit = batch.calls !== undefined || batch.steps !== undefined;
    let finish: RunFinish | undefined;
    for (const raw of batch.events) {
      const event = storableEvent(raw);
      if (isTransient(event)) {
        this.#broadcast.sendTransient(event);
        continue;
      }
      this.#fold.apply(event);
      durable.push({ seq: ++this.#run.lastSeq, event });
      mustCommit ||= isTransition(event);
      if (event.type === "finish") finish = finishOf(event, batch.events);
    }
    if (durable.length === 0 && !mustCommit) return;
    const commit = this.#commitOf(durable, batch, finish);
    if (mustCommit || this.#run.lastSeq > this.#run.reservedTo) {
      await this.#queue.commit(commit);
      this.#run.reservedTo = commit.reserveTo;
      this.#broadcast.send(durable, true);
    } else {
      this.#broadcast.send(durable, false);
      this.#queue.add(commit);
    }
  }

  #commitOf(
    events: SequencedEvent[],
    batch: LoopBatch,
    finish: RunFinish | undefined,
  ): RunCommit {
    const { tenantId, sessionId, runId, messageId, epoch, lastSeq } = this.#run;
    const changed = this.#fold.takeChangedParts();
    return {
      tenantId,
      sessionId,
      runId,
      messageId,
      epoch,
      events,
      reserveTo: lastSeq + SEQ_BLOCK,
      parts: changed,
      steps: batch.steps ?? [],
      toolCalls: batch.calls ?? [],
      ...(finish === undefined ? {} : { finish }),
    };
  }
}

function finishOf(
  event: HubEvent & { type: "finish" },
  batch: readonly HubEvent[],
): RunFinish {
  const failure = batch.find((other) => other.type === "error");
  const status = event.finishReason === "error"
    ? "failed"
    : event.finishReason === "aborted"
    ? "cancelled"
    : event.finishReason === "waiting"
    ? "waiting"
    : "completed";
  return {
    status,
    finishReason: event.finishReason,
    usage: event.usage,
    costMicros: event.costMicros,
    provider: event.metadata.provider,
    model: event.metadata.model,
    ...(failure === undefined ? {} : { error: { code: failure.code, message: failure.errorText } }),
  };
}
