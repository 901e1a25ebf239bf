import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { Broadcast } from "../../src/run/broadcast.ts";
import { CommitQueue } from "../../src/run/commit_queue.ts";
import { Recorder } from "../../src/run/recorder.ts";
import type { RunCommit } from "../../src/store/run_commit.ts";
import { createFakeClock } from "../support/fake_clock.ts";

function startRecorder() {
  const clock = createFakeClock();
  const commits: RunCommit[] = [];
  const queue = new CommitQueue({
    write(written) {
      commits.push(...structuredClone(written));
      return Promise.resolve(
        new Map(written.map(({ runId }) => [runId, { stopRequested: false, steered: 0 }])),
      );
    },
    settle: () => Promise.resolve(null),
    onCommitted() {},
    onLost() {},
    clock,
    log: SILENT_LOG,
    flushMs: 200,
    patienceMs: 10_000,
  });
  const run = {
    tenantId: "t",
    sessionId: "ses",
    runId: "run",
    messageId: "msg",
    agent: "default",
    epoch: 1,
    lastSeq: 0,
    reservedTo: 10_000,
  };
  const fold = createFold();
  const steering = { known: 0 };
  const recorder = new Recorder(run, { queue, broadcast: new Broadcast(), fold, steering });
  return { clock, commits, fold, record: (events: HubEvent[]) => recorder.record({ events }) };
}

Deno.test("a part that streams is appended to the log and stored once, at the next transition", async () => {
  const { clock, commits, fold, record } = startRecorder();
  await record([{ type: "step-start", step: 0 }]);
  await record([{ type: "text-start", id: "p0" }]);
  for (let at = 0; at < 50; at++) {
    await record([{ type: "text-delta", id: "p0", delta: "x".repeat(1000) }]);
    await clock.advance(200);
  }
  assert.equal(commits.length, 51);
  const streamed = commits.slice(1);
  assert.ok(streamed.every(({ parts, steps, toolCalls }) => {
    return parts.length + steps.length + toolCalls.length === 0;
  }));
  await record([
    { type: "text-end", id: "p0" },
    { type: "step-finish", step: 0, finishReason: "stop", usage: NO_USAGE },
  ]);
  const parts = commits.at(-1)?.parts;
  assert.deepEqual(parts?.map(({ index }) => index), [1]);
  assert.deepEqual(parts?.[0]?.part, fold.message().parts[1]);
});

Deno.test("parts of an answer that broke off are never stored when none of its batches was a transition", async () => {
  const { clock, commits, record } = startRecorder();
  await record([{ type: "step-start", step: 0 }]);
  await record([{ type: "text-start", id: "p0" }, { type: "text-delta", id: "p0", delta: "x" }]);
  await clock.advance(200);
  await record([{ type: "step-reset", step: 0 }]);
  assert.deepEqual(commits.flatMap(({ parts }) => parts.map(({ index }) => index)), [0]);
});
