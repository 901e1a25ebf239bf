import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { HubError } from "../../src/core/error.ts";
import { createFold } from "../../src/core/fold.ts";
import { toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import type { LoopBatch } from "../../src/inference/loop_batch.ts";
import { followLive } from "../../src/run/follow_run.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import type { Database } from "../../src/store/database.ts";
import { readMessage } from "../../src/store/messages.ts";
import { readEvents, readRun } from "../../src/store/runs.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";
import { systemClock } from "../support/system_clock.ts";
import { beginRun, callRow, LEASE_MS, tenantId } from "./run_rig.ts";

/** Postgres does what it is told; `loseNext` has its next answer lost on the way and resolves when it was. */
function losingAnswers(db: Database): Database & { loseNext(): Promise<void> } {
  let waiting: (() => void) | null = null;
  return {
    ...db,
    loseNext: () => new Promise<void>((resolve) => waiting = resolve),
    async within<T>(query: PromiseLike<T> & { cancel?: () => void }): Promise<T> {
      const answer = await db.within(query);
      if (waiting === null) return answer;
      waiting();
      waiting = null;
      throw new HubError("database_unavailable", "The answer was lost");
    },
  };
}

Deno.test("a run comes to its end though Postgres' answers are lost", async () => {
  await withDatabase(async (db) => {
    const run = await beginRun(db);
    const losing = losingAnswers(db);
    // The same delays, fifty times as fast; the lease as long as the machine may need.
    const clock = {
      ...systemClock,
      setTimer: (callback: () => void, ms: number) => systemClock.setTimer(callback, ms / 50),
    };
    const live = new LiveRuns({ db: losing, clock, log: SILENT_LOG, leaseMs: LEASE_MS });
    const row = callRow(testIds.next("call"));
    const { toolCallId, toolName } = row;
    const text = (id: string): HubEvent[][] => [
      [{ type: "text-start", id }],
      ...Array.from({ length: 5 }, (_, at): HubEvent[] => [
        { type: "text-delta", id, delta: `${at} ` },
      ]),
      [{ type: "text-end", id }],
    ];
    const batches: LoopBatch[] = [
      { events: [run.start, { type: "step-start", step: 0 }] },
      ...text("p0").map((events) => ({ events })),
      {
        events: [
          { type: "tool-input-available", toolCallId, toolName, input: {} },
          { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
        ],
        calls: [{ ...row, state: "ready" }],
      },
      { events: [], calls: [{ ...row, state: "started" }] },
      {
        events: [{ type: "tool-output-available", toolCallId, output: "ok" }],
        calls: [{ ...row, state: "succeeded", output: "ok" }],
      },
      { events: [{ type: "step-start", step: 1 }] },
      ...text("p1").map((events) => ({ events })),
      {
        events: [
          { type: "step-finish", step: 1, finishReason: "stop", usage: NO_USAGE },
          {
            type: "finish",
            finishReason: "stop",
            usage: NO_USAGE,
            costMicros: 0,
            metadata: { model: "m", provider: "p" },
          },
        ],
      },
    ];
    const driven = live.drive(
      { ...run, agent: "default", epoch: 1, lastSeq: 0, reservedTo: 4096 },
      async function* () {
        for (const batch of batches) {
          const isDelta = batch.events[0]?.type === "text-delta";
          const lost = losing.loseNext();
          yield batch;
          // What follows comes while the hub does not know whether this delta is written.
          if (isDelta) await lost;
        }
      },
    );
    const seen: number[] = [];
    for await (const events of followLive(driven.broadcast.subscribe(), 0)) {
      seen.push(...events.flatMap(({ seq }) => seq === null ? [] : [seq]));
    }
    await driven.done;
    await live.close("test");
    const log = await readEvents(db, { tenantId, runId: run.runId, afterSeq: 0, limit: 1000 });
    assert.deepEqual(checkLog(log), []);
    assert.deepEqual(log.map(({ event }) => event), batches.flatMap(({ events }) => events));
    assert.deepEqual(seen, log.map(({ seq }) => seq));
    assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.status, "completed");
    const fold = createFold();
    for (const { event } of log) fold.apply(event);
    const message = await readMessage(db, { tenantId, messageId: run.messageId });
    assert.deepEqual(message?.parts, fold.message().parts);
    const [call] = await db.read`select state from hub.tool_calls
      where run_id = ${toUuid(run.runId)}`;
    assert.equal(call?.["state"], "succeeded");
  });
});

/** Runs that say nothing, and what a replica does with them that leaves. */
function leavingRig() {
  const clock = createFakeClock();
  const released: unknown[] = [];
  const db = createFakeDatabase(({ text, values }) => {
    assert.match(text, /lease_owner = null/);
    released.push(values[2]);
    return Promise.resolve([]);
  });
  let left = 0;
  const onLeft = () => void left++;
  const live = new LiveRuns({ db, clock, log: SILENT_LOG, leaseMs: 60_000, onLeft });
  const drive = () => {
    const runId = testIds.next("run");
    const [sessionId, messageId] = [testIds.next("ses"), testIds.next("msg")];
    const ids = { tenantId, sessionId, runId, messageId };
    const record = { ...ids, agent: "default", epoch: 1, lastSeq: 0, reservedTo: 1 };
    const gate = Promise.withResolvers<void>();
    const run = live.drive(record, async function* (signal) {
      signal.addEventListener("abort", () => gate.resolve(), { once: true });
      if (!signal.aborted) await gate.promise;
      yield { events: [] };
    });
    return { uuid: toUuid(runId), endStep: gate.resolve, signal: run.abort.signal };
  };
  return { clock, released, live, drive, left: () => left };
}

Deno.test("a replica that leaves waits for each run's step, also of runs that began meanwhile", async () => {
  const { clock, released, live, drive, left } = leavingRig();
  const first = drive();
  let done = false;
  const leaving = live.leave({ graceMs: 10_000, silentMs: 10_000 }).then(() => done = true);
  const late = drive();
  first.endStep();
  await settle();
  assert.deepEqual([done, released], [false, [first.uuid]]);
  late.endStep();
  await leaving;
  assert.deepEqual(released, [first.uuid, late.uuid]);
  assert.deepEqual([first.signal.aborted, late.signal.aborted, left()], [false, false, 2]);
  // Too late even for that: left as well, never stopped.
  const last = drive();
  await live.close("the hub is stopping");
  assert.deepEqual(released, [first.uuid, late.uuid, last.uuid]);
  assert.match(String(last.signal.reason), /goes on at another one/);
  assert.equal(clock.pending(), 0);
});

Deno.test("steps that do not end in time are left where they are", async () => {
  const { clock, released, live, drive, left } = leavingRig();
  const runs = [drive(), drive()];
  const leaving = live.leave({ graceMs: 10_000, silentMs: 10_000 });
  await clock.advance(9999);
  assert.deepEqual(released, []);
  await clock.advance(1);
  await leaving;
  assert.deepEqual(released, runs.map(({ uuid }) => uuid));
  assert.ok(runs.every(({ signal }) => String(signal.reason).includes("goes on at another one")));
  assert.equal(left(), 2);
  await live.close("the hub is stopping");
});
