import assert from "node:assert/strict";
import { NO_USAGE } from "../../src/core/usage.ts";
import type { StepRow } from "../../src/store/run_commit.ts";
import { listRuns, readRunOverview } from "../../src/store/run_overview.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import { beginRun, tenantId, write } from "../run/run_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

Deno.test("runs with their owners, the active ones first", async () => {
  await withDatabase(async (db) => {
    const active = await beginRun(db);
    const lapsed = await beginRun(db, { leaseMs: 0 });
    const ended = await beginRun(db);
    const step = (number: number, state: StepRow["state"]): StepRow => ({
      step: number,
      state,
      attempt: 0,
    });
    await write(db, active, [active.start], { steps: [step(0, "done"), step(1, "started")] });
    await write(db, ended, [ended.start], {
      finish: {
        status: "completed",
        finishReason: "stop",
        usage: NO_USAGE,
        costMicros: null,
        provider: "one",
        model: "m",
      },
    });
    const list = (more: { sinceMs?: number; limit?: number } = {}) =>
      listRuns(db, { tenantId, sinceMs: 0, limit: 20, ...more });

    const [first, second, third, ...rest] = await list();
    assert.deepEqual(rest, []);
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    assert.deepEqual([first.runId, second.runId, third.runId], [
      lapsed.runId,
      active.runId,
      ended.runId,
    ]);
    assert.ok(first.leaseMs !== null && first.leaseMs <= 0);
    const { ageMs, leaseMs, createdAt, ...facts } = second;
    assert.deepEqual(facts, {
      runId: active.runId,
      sessionId: active.sessionId,
      agent: "default",
      model: "smart",
      status: "running",
      finishReason: null,
      owner: "test",
      epoch: 1,
      attempts: 0,
      step: 1,
      lastSeq: 1,
      finishedAt: null,
    });
    assert.ok(ageMs >= 0 && ageMs < 60_000 && leaseMs !== null && leaseMs > 0);
    assert.ok(Math.abs(Date.parse(createdAt) - Date.now()) < 60_000);
    assert.deepEqual([third.status, third.finishReason, third.owner, third.leaseMs, third.step], [
      "completed",
      "stop",
      null,
      null,
      null,
    ]);
    assert.notEqual(third.finishedAt, null);

    assert.deepEqual((await list({ limit: 2 })).map((run) => run.runId), [
      lapsed.runId,
      active.runId,
    ]);
    const sinceTomorrow = await list({ sinceMs: Date.now() + 86_400_000 });
    assert.deepEqual(sinceTomorrow.map((run) => run.runId), [lapsed.runId, active.runId]);
    const other = { tenantId: crypto.randomUUID(), sinceMs: 0, limit: 20 };
    assert.deepEqual(await listRuns(db, other), []);

    await claimAbandoned(db, { owner: "next", leaseMs: 15_000, limit: 10 });
    const taken = await readRunOverview(db, { tenantId, runId: lapsed.runId });
    assert.deepEqual([taken?.owner, taken?.epoch, taken?.attempts], ["next", 2, 2]);
    assert.equal(await readRunOverview(db, { tenantId, runId: testIds.next("run") }), null);
  });
});
