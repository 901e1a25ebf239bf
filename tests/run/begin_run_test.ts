import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";
import { testIds } from "../support/postgres.ts";
import { tenantId } from "./run_rig.ts";

Deno.test("a run whose loop cannot be made is over, and its lease is not kept", async () => {
  const clock = createFakeClock();
  const db = createFakeDatabase(() => Promise.resolve([]));
  const ended: string[] = [];
  const live = new LiveRuns({
    db,
    clock,
    log: SILENT_LOG,
    leaseMs: 15_000,
    onEnd: ({ record }) => ended.push(record.runId),
  });
  const record = {
    tenantId,
    sessionId: testIds.next("ses"),
    runId: testIds.next("run"),
    messageId: testIds.next("msg"),
    agent: "default",
    epoch: 1,
    lastSeq: 0,
    reservedTo: 4096,
  };
  const run = live.drive(record, () => {
    throw new Error("no such model");
  });
  const reader = run.broadcast.subscribe();
  await run.done;
  await assert.rejects(reader.next(), { code: "internal_error" });
  assert.deepEqual([live.size, clock.pending()], [0, 0]);
  assert.deepEqual(ended, [record.runId]);
  await live.close("test");
});
