import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { ToolEffect } from "../../src/core/tool.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import type { LoopBatch } from "../../src/inference/loop_batch.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import type { Database } from "../../src/store/database.ts";
import { readEvents } from "../../src/store/runs.ts";
import { createFakeClock, type FakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { beginRun, callRow, tenantId } from "./run_rig.ts";

const LEAVE = { graceMs: 30_000, silentMs: 2000 };
const ENDING: LoopBatch = {
  events: [
    { type: "abort", reason: "left" },
    {
      type: "finish",
      finishReason: "aborted",
      usage: NO_USAGE,
      costMicros: null,
      metadata: { model: "m", provider: "p" },
    },
  ],
};

/** A run that says what `say` is given, and ends as the loop does: when it is aborted, or left at the end of a step. */
async function drive(db: Database) {
  const run = await beginRun(db);
  const clock = createFakeClock();
  const live = new LiveRuns({ db, clock, log: SILENT_LOG, leaseMs: 600_000 });
  let next = Promise.withResolvers<LoopBatch | null>();
  let taken = Promise.withResolvers<void>();
  const { done } = live.drive(
    { ...run, agent: "default", epoch: 1, lastSeq: 0, reservedTo: 4096 },
    async function* (signal) {
      const aborted = new Promise<"aborted">((resolve) =>
        signal.addEventListener("abort", () => resolve("aborted"))
      );
      for (;;) {
        const batch = await Promise.race([next.promise, aborted]);
        if (batch === "aborted") return yield ENDING;
        if (batch === null) return;
        next = Promise.withResolvers();
        yield batch;
        taken.resolve();
      }
    },
  );
  return {
    run,
    live,
    clock,
    done,
    /** Resolves when the batch is taken. */
    async say(events: HubEvent[], more: Partial<LoopBatch> = {}) {
      taken = Promise.withResolvers();
      next.resolve({ events, ...more });
      await taken.promise;
    },
    endStep: () => next.resolve(null),
    async stand() {
      const rows = await db.read`
        select status, lease_until is null as released, attempts from hub.runs
        where run_id = ${toUuid(run.runId)}`;
      return { ...rows[0] };
    },
  };
}

/** Moves the clock in steps as short as those of the hub, with Postgres answering in between. */
async function pass(clock: FakeClock, ms: number) {
  for (let at = 0; at < ms; at += 100) await clock.advance(100);
}

const RELEASED = { status: "running", released: true, attempts: 0 };
const HELD = { status: "running", released: false, attempts: 1 };

Deno.test("runs of a replica that stops", async (t) => {
  await withDatabase(async (db) => {
    const begin = async () => {
      const rig = await drive(db);
      await rig.say([rig.run.start, { type: "step-start", step: 0 }]);
      return rig;
    };

    await t.step("a step that ends is waited for, as long as it says something", async () => {
      const rig = await begin();
      await rig.say([{ type: "text-start", id: "p0" }]);
      const left = rig.live.leave(LEAVE);
      for (let second = 0; second < 10; second++) {
        await pass(rig.clock, 1500);
        await rig.say([{ type: "text-delta", id: "p0", delta: `${second} ` }]);
      }
      assert.deepEqual(await rig.stand(), HELD);
      rig.endStep();
      await left;
      assert.deepEqual(await rig.stand(), RELEASED);
      await rig.live.close("test");
    });

    await t.step("a silent step is left, with what was said but not yet written", async () => {
      const rig = await begin();
      await rig.say([{ type: "text-start", id: "p0" }]);
      const left = rig.live.leave(LEAVE);
      await pass(rig.clock, 1900);
      assert.equal(rig.live.size, 1);
      await rig.say([{ type: "text-delta", id: "p0", delta: "Half" }]);
      // The delta waits for its commit while the run is lost.
      await pass(rig.clock, 1900);
      assert.equal(rig.live.size, 1);
      await pass(rig.clock, 100);
      await left;
      assert.deepEqual(await rig.stand(), RELEASED);
      const { runId } = rig.run;
      const log = await readEvents(db, { tenantId, runId, afterSeq: 0, limit: 100 });
      assert.ok(log.every(({ event }) => event.type !== "abort" && event.type !== "finish"));
      await rig.live.close("test");
    });

    await t.step("a delta on its way does not let the lost run end as aborted", async () => {
      const rig = await begin();
      await rig.say([{ type: "text-start", id: "p0" }]);
      await rig.say([{ type: "text-delta", id: "p0", delta: "Half" }]);
      await rig.live.leave({ graceMs: 0, silentMs: 0 });
      assert.deepEqual(await rig.stand(), RELEASED);
      await rig.live.close("test");
    });

    await t.step(
      "a stop that comes when the run is being left does not keep its lease",
      async () => {
        const rig = await begin();
        const left = rig.live.leave(LEAVE);
        rig.endStep();
        rig.live.stop(rig.run.runId, "stop requested");
        await left;
        assert.deepEqual(await rig.stand(), RELEASED);
        await rig.live.close("test");
      },
    );

    const callOf = (effect: ToolEffect) => callRow(testIds.next("call"), { effect });
    const act = async (effect: ToolEffect) => {
      const rig = await begin();
      const row = callOf(effect);
      const { toolCallId, toolName } = row;
      await rig.say([
        { type: "tool-input-available", toolCallId, toolName, input: {} },
        { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
      ], { calls: [{ ...row, state: "ready" } as never] });
      await rig.say([], { calls: [{ ...row, state: "started" } as never] });
      return {
        ...rig,
        row,
        end: () =>
          rig.say([{ type: "tool-output-available", toolCallId, output: "ok" }], {
            calls: [{ ...row, state: "succeeded", output: "ok" } as never],
          }),
      };
    };

    await t.step("a tool with effects is waited for, however silent", async () => {
      const rig = await act("effect");
      const left = rig.live.leave(LEAVE);
      await pass(rig.clock, 20_000);
      assert.deepEqual(await rig.stand(), HELD);
      await rig.end();
      rig.endStep();
      await left;
      assert.deepEqual(await rig.stand(), RELEASED);
      const [call] = await db.read`select state from hub.tool_calls
        where run_id = ${toUuid(rig.run.runId)}`;
      assert.equal(call?.["state"], "succeeded");
      await rig.live.close("test");
    });

    await t.step("at the end of the grace it is given up", async () => {
      const rig = await act("effect");
      const left = rig.live.leave(LEAVE);
      await pass(rig.clock, 30_000);
      await left;
      assert.deepEqual(await rig.stand(), RELEASED);
      await rig.live.close("test");
    });

    for (const effect of ["pure", "idempotent"] as const) {
      await t.step(`a silent tool that may run again is left: ${effect}`, async () => {
        const rig = await act(effect);
        const left = rig.live.leave(LEAVE);
        await pass(rig.clock, 2000);
        await left;
        assert.deepEqual(await rig.stand(), RELEASED);
        await rig.live.close("test");
      });
    }
  });
});

Deno.test("a run that cannot be released keeps no other from it", async () => {
  const released: unknown[] = [];
  const db = createFakeDatabase(({ text, values }) => {
    if (!text.includes("lease_owner = null")) return Promise.resolve([]);
    released.push(values.at(-1));
    return released.length === 1 ? Promise.reject(new Error("no Postgres")) : Promise.resolve([]);
  });
  const clock = createFakeClock();
  const live = new LiveRuns({ db, clock, log: SILENT_LOG, leaseMs: 600_000 });
  for (const epoch of [7, 8]) {
    const record = {
      tenantId,
      sessionId: testIds.next("ses"),
      runId: testIds.next("run"),
      messageId: testIds.next("msg"),
      agent: "default",
      epoch,
      lastSeq: 0,
      reservedTo: 4096,
    };
    live.drive(record, async function* (signal) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield ENDING;
    });
  }
  await settle();
  await assert.rejects(live.leave({ graceMs: 0, silentMs: 0 }), /no Postgres/);
  assert.deepEqual(released, [7, 8]);
  await live.close("test");
  assert.equal(clock.pending(), 0);
});
