import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import type { LoopBatch } from "../../src/inference/loop_batch.ts";
import { followRun } from "../../src/run/follow_run.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import { lookAtLog } from "../../src/run/look_at_log.ts";
import { RunWakeups } from "../../src/run/run_wakeups.ts";
import type { Database } from "../../src/store/database.ts";
import { readMessage } from "../../src/store/messages.ts";
import { pruneEvents } from "../../src/store/prune_events.ts";
import { type RunKey } from "../../src/store/runs.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";
import { beginRun, tenantId } from "./run_rig.ts";

const usage = { ...NO_USAGE, promptTokens: 10, completionTokens: 5, totalTokens: 15 };
const double = { ...NO_USAGE, promptTokens: 20, completionTokens: 10, totalTokens: 30 };
const metadata = { model: "smart-1", provider: "acme" };
const text = (id: string): HubEvent[] => [
  { type: "text-start", id },
  { type: "text-delta", id, delta: "Well, " },
  { type: "text-delta", id, delta: "see" },
  { type: "text-end", id },
];
const stepFinish = (step: number, finishReason: "stop" | "tool-calls" | "error"): HubEvent => ({
  type: "step-finish",
  step,
  finishReason,
  usage,
});

/** Drives these batches as a run to its end, prunes its log, and gives a full replay beside the log as it was. */
async function replayed(db: Database, batches: (start: HubEvent) => HubEvent[][]) {
  const run = await beginRun(db);
  const live = new LiveRuns({ db, clock: systemClock, log: SILENT_LOG, leaseMs: 15_000 });
  const all = batches(run.start);
  const { done } = live.drive(
    { ...run, agent: "default", epoch: 1, lastSeq: 0, reservedTo: 4096 },
    async function* (): AsyncGenerator<LoopBatch, void, void> {
      for (const events of all) yield await Promise.resolve({ events });
    },
  );
  await done;
  await live.close("test");
  assert.ok(await pruneEvents(db, 0) > 0);
  const events: HubEvent[] = [];
  const seqs: (number | null)[] = [];
  const signal = new AbortController().signal;
  const follow = followRun({ tenantId, runId: run.runId, after: 0, signal }, {
    db,
    live,
    wakeups: new RunWakeups({
      look: (key, after) => lookAtLog(db, key, after),
      pollMs: () => 250,
      clock: systemClock,
    }),
  });
  for await (const page of follow) {
    events.push(...page.map(({ event }) => event));
    seqs.push(...page.map(({ seq }) => seq));
  }
  assert.deepEqual(checkLog(events.map((event, at) => ({ seq: at + 1, event }))), []);
  assert.deepEqual(seqs.filter((seq) => seq !== null), [all.flat().length]);
  assert.notEqual(seqs.at(-1), null);
  const fold = createFold();
  for (const event of all.flat()) fold.apply(event);
  const again = createFold();
  for (const event of events) again.apply(event);
  assert.deepEqual(again.message(), fold.message());
  const stored = await readMessage(db, { tenantId, messageId: run.messageId });
  assert.deepEqual(stored?.parts, fold.message().parts);
  return { events, stored };
}

Deno.test("the replay of a run whose log was pruned is a valid log with the same message", async (t) => {
  await withDatabase(async (db) => {
    await t.step("two steps with a tool", async () => {
      const toolCallId = testIds.next("call");
      const toolName = "test.tool";
      const { events } = await replayed(db, (start) => [
        [start, { type: "step-start", step: 0 }],
        text("p0"),
        [
          { type: "tool-input-available", toolCallId, toolName, input: { a: 1 } },
          stepFinish(0, "tool-calls"),
        ],
        [{ type: "tool-output-available", toolCallId, output: "ok" }],
        [{ type: "step-start", step: 1 }],
        text("p1"),
        [
          stepFinish(1, "stop"),
          { type: "finish", finishReason: "stop", usage: double, costMicros: 42, metadata },
        ],
      ]);
      assert.deepEqual(events.at(-1), {
        type: "finish",
        finishReason: "stop",
        usage: double,
        costMicros: 42,
        metadata,
      });
    });

    await t.step("a failed run keeps its error", async () => {
      const error: HubEvent = {
        type: "error",
        errorText: "It broke",
        code: "upstream_cut",
        retryable: true,
      };
      const { events, stored } = await replayed(db, (start) => [
        [start, { type: "step-start", step: 0 }],
        text("p0"),
        [
          stepFinish(0, "error"),
          error,
          { type: "finish", finishReason: "error", usage, costMicros: null, metadata },
        ],
      ]);
      assert.deepEqual(events.at(-2), error);
      const { type: _, ...facts } = error;
      assert.deepEqual(stored?.metadata?.["error"], facts);
    });

    await t.step("a run that failed before its first step", async () => {
      await replayed(db, (start) => [[
        start,
        { type: "error", errorText: "No", code: "model_not_found", retryable: false },
        { type: "finish", finishReason: "error", usage: NO_USAGE, costMicros: 0, metadata },
      ]]);
    });

    await t.step("a stopped run keeps its reason", async () => {
      const { events } = await replayed(db, (start) => [
        [start, { type: "step-start", step: 0 }],
        text("p0"),
        [
          { type: "step-finish", step: 0, finishReason: "aborted", usage },
          { type: "abort", reason: "stopped by the user" },
          { type: "finish", finishReason: "aborted", usage, costMicros: 1, metadata },
        ],
      ]);
      assert.deepEqual(events.at(-2), { type: "abort", reason: "stopped by the user" });
    });
  });
});

Deno.test("whoever follows a run of another replica is sent there when this one stops", async () => {
  await withDatabase(async (db) => {
    const { runId } = await beginRun(db);
    const live = new LiveRuns({ db, clock: systemClock, log: SILENT_LOG, leaseMs: 15_000 });
    const clock = createFakeClock();
    const stopped = new AbortController();
    const signal = new AbortController().signal;
    const look = (key: RunKey, after: number) => lookAtLog(db, key, after);
    const wakeups = new RunWakeups({ look, pollMs: () => 60_000, clock });
    const events = followRun({ tenantId, runId, after: 0, signal }, {
      db,
      live,
      wakeups,
      stopped: stopped.signal,
    });
    const next = events.next();
    await eventually(() => Promise.resolve(clock.pending() > 0 ? true : null));
    stopped.abort();
    wakeups.wakeAll();
    assert.deepEqual(await next, { done: true, value: false });
  });
});

Deno.test("a cursor beyond the end of a run is one that its log does not know", async () => {
  await withDatabase(async (db) => {
    const live = new LiveRuns({ db, clock: systemClock, log: SILENT_LOG, leaseMs: 15_000 });
    const clock = createFakeClock();
    const look = (key: RunKey, after: number) => lookAtLog(db, key, after);
    const wakeups = new RunWakeups({ look, pollMs: () => 60_000, clock });
    const run = await beginRun(db);
    const { runId } = run;
    const signal = new AbortController().signal;
    const follow = (after: number) =>
      followRun({ tenantId, runId, after, signal }, { db, live, wakeups });
    const early = follow(999).next();
    await eventually(() => clock.pending() > 0 ? true : null);
    const events: HubEvent[] = [
      run.start,
      { type: "step-start", step: 0 },
      ...text("p0"),
      stepFinish(0, "stop"),
      { type: "finish", finishReason: "stop", usage, costMicros: 1, metadata },
    ];
    const { done } = live.drive(
      { ...run, agent: "default", epoch: 1, lastSeq: 0, reservedTo: 4096 },
      async function* (): AsyncGenerator<LoopBatch, void, void> {
        yield await Promise.resolve({ events });
      },
    );
    await done;
    await live.close("test");
    wakeups.wakeAll();
    assert.deepEqual(await early, { done: true, value: false }, "it is to come back");
    for (const after of [events.length + 1, 999, 4096, 4097]) {
      const { value } = await follow(after).next();
      assert.ok(Array.isArray(value), `${after}`);
      assert.deepEqual(value.map(({ event }) => event), events);
    }
    assert.deepEqual(await follow(events.length).next(), { done: true, value: true });
  });
});
