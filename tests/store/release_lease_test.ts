import assert from "node:assert/strict";
import { toUuid } from "../../src/core/id.ts";
import { commitRuns } from "../../src/store/commit_runs.ts";
import { readRun, releaseLease, renewLeases } from "../../src/store/runs.ts";
import { beginRun, tenantId } from "../run/run_rig.ts";
import { withDatabase } from "../support/postgres.ts";

Deno.test("what its former owner had under way does not take a released run again", async () => {
  await withDatabase(async (db) => {
    const run = await beginRun(db);
    const key = { tenantId, runId: run.runId, epoch: 1 };
    await releaseLease(db, key);
    const commit = {
      ...run,
      epoch: 1,
      follows: 0,
      events: [{ seq: 1, event: run.start }],
      reserveTo: 4096,
      parts: [],
      steps: [],
      toolCalls: [],
    };
    const steps = [{ step: 0, state: "started" as const, attempt: 1 }];
    for (const late of [commit, { ...commit, steps }]) {
      assert.equal((await commitRuns(db, { commits: [late], leaseMs: 15_000 })).size, 0);
    }
    assert.equal((await renewLeases(db, { runs: [key], leaseMs: 15_000 })).size, 0);
    const [row] = await db.read`
      select lease_until, lease_owner, last_seq::int from hub.runs
      where run_id = ${toUuid(run.runId)}`;
    assert.deepEqual({ ...row }, { lease_until: null, lease_owner: null, last_seq: 0 });
    // Once more, by an owner that was never told, changes nothing either.
    await releaseLease(db, key);
    assert.equal((await readRun(db, key))?.epoch, 2);
  });
});
