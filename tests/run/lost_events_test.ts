import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { readLostEvents } from "../../src/core/lost_events.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import type { LoopBatch } from "../../src/inference/loop_batch.ts";
import { callTool } from "../../src/operations/call.ts";
import { followRun } from "../../src/run/follow_run.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import { lookAtLog } from "../../src/run/look_at_log.ts";
import { RunWakeups } from "../../src/run/run_wakeups.ts";
import { takeOverAbandoned } from "../../src/run/take_over.ts";
import type { Database } from "../../src/store/database.ts";
import { migrate } from "../../src/store/migrate.ts";
import type { ToolCallRow } from "../../src/store/run_commit.ts";
import { readEvents, readRun } from "../../src/store/runs.ts";
import { says } from "../inference/loop_rig.ts";
import { MIGRATIONS, openTestDatabase, testIds, withDatabase } from "../support/postgres.ts";
import { withPostgresServer } from "../support/postgres_server.ts";
import { systemClock } from "../support/system_clock.ts";
import { eventually } from "../support/test_hub.ts";
import { beginRun, callRow, LEASE_MS, tenantId } from "./run_rig.ts";

type Run = Awaited<ReturnType<typeof beginRun>>;

const readLog = (db: Database, runId: string) =>
  readEvents(db, { tenantId, runId, afterSeq: 0, limit: 1000 });

/** A replica whose runs say what the test hands it, one batch after the other. */
function startReplica(db: Database) {
  const errors: string[] = [];
  const log = {
    ...SILENT_LOG,
    error: (message: string, fields?: Record<string, unknown>) => {
      errors.push(`${message} ${JSON.stringify(fields)}`);
    },
  };
  const live = new LiveRuns({ db, clock: systemClock, log, leaseMs: LEASE_MS });
  const drive = (run: Run, more: { epoch?: number; lastSeq?: number } = {}) => {
    const batches: LoopBatch[] = [];
    let wake = () => {};
    const record = { ...run, agent: "default", epoch: 1, lastSeq: 0, reservedTo: 4096, ...more };
    const driven = live.drive(record, async function* (signal) {
      for (;;) {
        const batch = batches.shift();
        if (batch !== undefined) yield batch;
        else if (signal.aborted) return;
        else {
          const { promise, resolve } = Promise.withResolvers<void>();
          wake = resolve;
          signal.addEventListener("abort", () => resolve(), { once: true });
          await promise;
        }
      }
    });
    const say = (batch: LoopBatch) => {
      batches.push(batch);
      wake();
    };
    /** Says it and waits until Postgres has confirmed it. */
    const commit = async (events: HubEvent[], calls: LoopBatch["calls"] = []) => {
      const from = record.lastSeq;
      say({ events, calls });
      const isDone = () =>
        record.lastSeq === from + events.length && driven.record.committedSeq === record.lastSeq
          ? true
          : null;
      await eventually(() => Promise.resolve(isDone()));
    };
    return { say, commit };
  };
  /** Takes over what is abandoned and drives it to its end. */
  const takeOver = async () => {
    const agent = {
      settings: { name: "default", systemPrompt: "", maxSteps: 5, maxParallelTools: 4 },
      model: "smart",
      tools: [],
      callModel: () => says("Whole"),
    };
    const count = await takeOverAbandoned({
      start: {
        ...{ db, live, clock: systemClock, ids: testIds, random: () => 0.5, log },
        executeTool: (tool, input, context) => callTool(tool, input, { context }),
        ...{ owner: "other", leaseMs: LEASE_MS, approvalTimeoutMs: 60_000 },
      },
      findAgent: () => agent,
      recordUsage() {},
      onCommitted() {},
      onLeft() {},
    });
    return count;
  };
  return { live, errors, drive, takeOver };
}

/** Follows a run from a cursor, and gives numbers and events up to its end or to where the reader was broken off. */
async function follow(db: Database, runId: string, after: number) {
  const wakeups = new RunWakeups({
    look: (key, from) => lookAtLog(db, key, from),
    pollMs: () => 50,
    clock: systemClock,
  });
  const { signal } = new AbortController();
  const live = { get: () => undefined, stop: () => false };
  const seen: { seq: number | null; event: HubEvent }[] = [];
  try {
    for await (
      const page of followRun({ tenantId, runId, after, signal }, { db, live, wakeups })
    ) seen.push(...page.map(({ seq, event }) => ({ seq, event })));
  } catch (error) {
    return { seen, brokenBy: error instanceof HubError ? error.code : String(error) };
  }
  return { seen, brokenBy: null };
}

/** Keeps what Postgres has of a run; the function puts all of it back. */
async function keepRows(db: Database, runId: string) {
  const id = toUuid(runId as Id);
  const [run] = await db.read`select lease_epoch::float8 as epoch, last_seq::float8 as last_seq,
    seq_reserved::float8 as reserved, status, lease_until from hub.runs where run_id = ${id}`;
  assert.ok(run !== undefined);
  return async () => {
    const { last_seq, epoch, reserved, status, lease_until } = run;
    await db.control`delete from hub.run_events where run_id = ${id} and seq_from > ${last_seq}`;
    await db.control`delete from hub.tool_calls where run_id = ${id}`;
    await db.control`delete from hub.steps where run_id = ${id}`;
    await db.control`delete from hub.parts p using hub.messages m
      where p.message_id = m.message_id and m.run_id = ${id}`;
    await db.control`update hub.runs set lease_epoch = ${epoch}, last_seq = ${last_seq},
      seq_reserved = ${reserved}, status = ${status}, lease_until = ${lease_until}
      where run_id = ${id}`;
  };
}

const started = (more: Partial<ToolCallRow>) => ({
  ...callRow(testIds.next("call"), more),
  state: "started" as const,
});

const STEP: HubEvent[] = [{ type: "step-start", step: 0 }, { type: "text-start", id: "p0" }];
const delta = (text: string): HubEvent => ({ type: "text-delta", id: "p0", delta: text });
const call = (toolCallId: string, toolName = "test.tool"): HubEvent => ({
  type: "tool-input-available",
  toolCallId,
  toolName,
  input: {},
});

Deno.test("runs whose confirmed events Postgres has lost", async (t) => {
  await withDatabase(async (db) => {
    await t.step(
      "a step begins again behind all numbers that were shown, and says why",
      async () => {
        const run = await beginRun(db);
        const replica = startReplica(db);
        const { say, commit } = replica.drive(run);
        await commit([run.start, ...STEP]);
        const restore = await keepRows(db, run.runId);
        await commit([delta("lost "), delta("words")]);
        await restore();
        const reader = follow(db, run.runId, 5);
        say({ events: [delta(" and more")] });
        await eventually(() => replica.live.get(run.runId) === undefined ? true : null);
        await replica.live.lose(run.runId);
        assert.match(replica.errors.at(-1) ?? "", /lost events of a run that it had confirmed/);
        assert.match(replica.errors.at(-1) ?? "", /"confirmedSeq":5,"storedSeq":3,"outcome":"rest/);
        assert.equal((await reader).brokenBy, "lease_lost");

        assert.equal(await replica.takeOver(), 1);
        await replica.live.get(run.runId)?.done;
        const log = await readLog(db, run.runId);
        assert.deepEqual(checkLog(log), []);
        const told = log.find(({ event }) => readLostEvents(event) !== null);
        assert.deepEqual(told && readLostEvents(told.event), { afterSeq: 3, throughSeq: 4099 });
        assert.deepEqual(log.map(({ seq }) => seq).slice(0, 5), [1, 2, 3, 4100, 8196]);
        assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.status, "completed");
        for (const cursor of [4, 5, 6]) {
          const replay = await follow(db, run.runId, cursor);
          assert.deepEqual(replay.seen, log, `a reader of ${cursor} gets everything`);
        }
        for (const cursor of [2, 3, 4100]) {
          const rest = await follow(db, run.runId, cursor);
          assert.deepEqual(rest.seen, log.filter(({ seq }) => seq > cursor));
        }
        await replica.live.close("test");
      },
    );

    await t.step("between steps, numbers of lost events are not used again", async () => {
      const run = await beginRun(db);
      const replica = startReplica(db);
      const { say, commit } = replica.drive(run);
      await commit([run.start]);
      const restore = await keepRows(db, run.runId);
      await commit([...STEP, delta("lost")]);
      await restore();
      say({ events: [], calls: [started({ effect: "pure" })] });
      await eventually(() => replica.live.get(run.runId) === undefined ? true : null);
      await replica.live.lose(run.runId);
      assert.equal(await replica.takeOver(), 1);
      await replica.live.get(run.runId)?.done;
      const log = await readLog(db, run.runId);
      assert.deepEqual(checkLog(log), []);
      assert.ok(log.slice(1).every(({ seq }) => seq > 4));
      assert.deepEqual((await follow(db, run.runId, 3)).seen, log);
      await replica.live.close("test");
    });

    await t.step("all events of a run, and its claim, can be lost", async () => {
      const run = await beginRun(db);
      const replica = startReplica(db);
      const restore = await keepRows(db, run.runId);
      await db.control`update hub.runs set lease_epoch = 7
        where run_id = ${toUuid(run.runId as Id)}`;
      const { say, commit } = replica.drive(run, { epoch: 7 });
      await commit([run.start, ...STEP]);
      await restore();
      say({ events: [{ type: "step-reset", step: 0 }] });
      await eventually(() => replica.live.get(run.runId) === undefined ? true : null);
      await replica.live.lose(run.runId);
      assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.epoch, 9);
      assert.equal(await replica.takeOver(), 1);
      await replica.live.get(run.runId)?.done;
      const log = await readLog(db, run.runId);
      assert.deepEqual(checkLog(log), []);
      assert.deepEqual((await follow(db, run.runId, 2)).seen, log);
      await replica.live.close("test");
    });

    await t.step("a run ends when the journal has lost a tool with effects", async () => {
      const run = await beginRun(db);
      const replica = startReplica(db);
      const { say, commit } = replica.drive(run);
      const kept = started({ toolName: "kept.tool", effect: "pure" });
      const lost = started({ toolName: "shop.pay" });
      await commit([run.start, { type: "step-start", step: 0 }]);
      const restore = await keepRows(db, run.runId);
      await commit([call(kept.toolCallId, "kept.tool"), call(lost.toolCallId, "shop.pay")]);
      await commit([{
        type: "step-finish",
        step: 0,
        finishReason: "tool-calls",
        usage: NO_USAGE,
      }], [kept, lost]);
      await restore();
      say({ events: [{ type: "tool-output-available", toolCallId: lost.toolCallId, output: 1 }] });
      await eventually(() => replica.live.get(run.runId) === undefined ? true : null);
      await replica.live.lose(run.runId);
      const stored = await readRun(db, { tenantId, runId: run.runId });
      assert.equal(stored?.status, "failed");
      assert.match(
        String(stored?.error?.["message"]),
        /lost the last events .* of shop\.pay: insp/,
      );
      const log = await readLog(db, run.runId);
      assert.deepEqual(checkLog(log), []);
      assert.deepEqual((await follow(db, run.runId, 4)).seen, log);
      assert.equal(await replica.takeOver(), 0);
      await replica.live.close("test");
    });

    await t.step("a run that another replica took over has lost nothing", async () => {
      const run = await beginRun(db);
      const replica = startReplica(db);
      const { say, commit } = replica.drive(run);
      await commit([run.start, ...STEP]);
      await db.control`update hub.runs set lease_epoch = 2, last_seq = 9
        where run_id = ${toUuid(run.runId as Id)}`;
      say({ events: [{ type: "step-reset", step: 0 }] });
      await eventually(() => replica.live.get(run.runId) === undefined ? true : null);
      await replica.live.lose(run.runId);
      assert.ok(replica.errors.every((error) => !error.includes("has lost events")));
      assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.epoch, 2);
      await replica.live.close("test");
    });
  });
});

Deno.test("a run outlives a cluster that is put back to an earlier copy of itself", async () => {
  await withPostgresServer(async (server) => {
    await migrate(server.url, { folder: MIGRATIONS, log: SILENT_LOG });
    const db = openTestDatabase(server.url, { deadlineMs: 2000 });
    const run = await beginRun(db);
    const replica = startReplica(db);
    try {
      const { say, commit } = replica.drive(run);
      await commit([run.start, ...STEP, delta("kept")]);
      await server.keepCopy();
      await commit([{ type: "text-end", id: "p0" }]);
      await commit([{ type: "text-start", id: "p1" }]);
      await server.restoreCopy();
      say({ events: [{ type: "step-reset", step: 0 }] });
      await eventually(() => replica.live.get(run.runId) === undefined ? true : null);
      await replica.live.lose(run.runId);
      assert.match(replica.errors.at(-1) ?? "", /"confirmedSeq":6,"storedSeq":4,"outcome":"rest/);
      assert.equal(await replica.takeOver(), 1);
      await replica.live.get(run.runId)?.done;
      const log = await readLog(db, run.runId);
      assert.deepEqual(checkLog(log), []);
      assert.ok(log.slice(4).every(({ seq }) => seq > 6));
      assert.deepEqual((await follow(db, run.runId, 6)).seen, log);
    } finally {
      await replica.live.close("test");
      await db.close();
    }
  });
});
