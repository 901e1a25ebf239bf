import assert from "node:assert/strict";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { ModelMessage, ModelRequest } from "../../src/core/model.ts";
import { readSteering, type SteeringKind, type SteeringText } from "../../src/core/steering.ts";
import type { UIMessage } from "../../src/core/ui_message.ts";
import { historyToModel } from "../../src/inference/history_to_model.ts";
import type { LoopBatch, ToolCallRecord } from "../../src/inference/loop_batch.ts";
import { CONCLUDE } from "../../src/inference/model_request.ts";
import { repairHistory } from "../../src/inference/repair_history.ts";
import { isEnd } from "../../src/inference/terminal.ts";
import { SteeringInbox } from "../../src/run/steering_inbox.ts";
import { type RigOptions, setUpRig } from "./loop_rig.ts";

export type Said = SteeringText & { state: "pending" | "applied" | "undelivered" };

/** Numbers that a former owner may have shown without committing them. */
const RESERVED = 4096;

/** What Postgres does for one run and its texts, in memory: every write is whole or is not. */
export class FakeStore {
  readonly said: Said[] = [];
  readonly log: SequencedEvent[] = [];
  readonly journal = new Map<string, ToolCallRecord>();
  isOver = false;
  #ids = 0;

  /** Says something; false when the run is over and refuses it. */
  say(kind: SteeringKind): boolean {
    if (this.isOver) return false;
    const steeringId = `steer_${++this.#ids}`;
    this.said.push({ steeringId, kind, text: `text ${this.#ids}`, state: "pending" });
    return true;
  }

  pending(): Promise<{ steered: number; texts: SteeringText[] }> {
    const texts = this.said.filter(({ state }) => state === "pending")
      .map(({ steeringId, kind, text }) => ({ steeringId, kind, text }));
    return Promise.resolve({ steered: this.said.length, texts });
  }

  /** Writes a batch; an end is left out when more was said than its writer knows. */
  write(batch: LoopBatch, { known }: { known: number }): void {
    assert.ok(!this.isOver, "nothing is written behind the end");
    const isHeld = this.said.length > known;
    for (const row of batch.calls ?? []) this.journal.set(row.toolCallId, row);
    for (const event of batch.events) {
      if (event.type === "data" && event.transient === true) continue;
      if (isEnd(event) && isHeld) continue;
      if (event.type === "finish") this.isOver = true;
      const jump = event.type === "step-reset" ? RESERVED : 1;
      this.log.push({ seq: (this.log.at(-1)?.seq ?? 0) + jump, event });
      const fate = event.type === "data" ? readSteering(event) : null;
      if (fate === null) continue;
      const row = this.said.find(({ steeringId }) => steeringId === fate.steeringId);
      assert.equal(row?.state, "pending", `${fate.steeringId} is decided once`);
      if (row !== undefined) row.state = fate.state;
    }
  }

  get events(): HubEvent[] {
    return this.log.map(({ event }) => event);
  }

  message(): UIMessage {
    const fold = createFold();
    for (const event of this.events) fold.apply(event);
    return fold.message();
  }
}

/** One owner of the run. `kills` is asked around every write: true ends the owner there, as a kill would. */
export async function driveOwner(
  store: FakeStore,
  options: RigOptions & {
    kills(place: "before" | "after"): boolean;
    abort: AbortController;
    /** The inbox of this owner, for hints. */
    onInbox?(inbox: SteeringInbox): void;
  },
): Promise<ModelRequest[]> {
  const inbox = new SteeringInbox({
    read: () => store.pending(),
    steered: store.said.length,
    log: SILENT_LOG,
  });
  options.onInbox?.(inbox);
  const isOpen = ({ state }: ToolCallRecord) => state === "ready" || state === "started";
  const resume = store.log.length === 0 ? {} : {
    resume: {
      events: store.events,
      openCalls: [...store.journal.values()].filter(isOpen),
      decisions: [],
      costMicros: null,
    },
  };
  const { signal } = options.abort;
  const rig = setUpRig({
    ...options,
    run: { ...resume, ...options.run, steering: inbox, signal },
  });
  for await (const batch of rig.generator) {
    await Promise.resolve();
    if (options.kills("before")) break;
    store.write(batch, inbox);
    for (const row of batch.calls ?? []) rig.journal.set(row.toolCallId, row);
    inbox.tell(store.said.length);
    if (options.kills("after")) break;
  }
  return rig.requests;
}

/** What the messages of the run give a model later, without the line that asks to conclude. */
export function readLater(store: FakeStore, toWire: (name: string) => string): ModelMessage[] {
  return repairHistory(historyToModel([store.message()], toWire));
}

/** What a request had of the run's own message. */
export function readThen(request: ModelRequest): ModelMessage[] {
  return request.messages.slice(2).filter((message) => !JSON.stringify(message).includes(CONCLUDE));
}
