import assert from "node:assert/strict";
import { createRun } from "../../src/store/create_run.ts";
import { readRun } from "../../src/store/runs.ts";
import { createSession } from "../../src/store/sessions.ts";
import {
  findAskingRun,
  listOpenSubRuns,
  readLineage,
  readRunSpent,
} from "../../src/store/sub_runs.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
const OTHER_TENANT = "00000000-0000-7000-8000-0000000000ff";

Deno.test("runs below a run are found on every level, and by nobody of another tenant", async () => {
  await withDatabase(async (db) => {
    const begin = async (agent: string, parent?: { runId: string; toolCallId: string }) => {
      const sessionId = testIds.next("ses");
      await createSession(db, { tenantId, sessionId, agent, keyId: testIds.next("key") });
      const runId = testIds.next("run");
      const created = await createRun(db, {
        tenantId,
        sessionId,
        runId,
        messageId: testIds.next("msg"),
        agent,
        model: "m",
        owner: "test",
        leaseMs: 15_000,
        reserve: 100,
        userMessage: null,
        ...parent === undefined ? {} : { parent },
      });
      assert.equal(created.kind, "created");
      return runId;
    };
    const toolCallId = testIds.next("call");
    const boss = await begin("boss");
    const helper = await begin("helper", { runId: boss, toolCallId });
    const scribe = await begin("scribe", { runId: helper, toolCallId });
    const stranger = await begin("boss");
    const key = (runId: string) => ({ tenantId, runId });

    assert.deepEqual(await readLineage(db, key(scribe)), ["scribe", "helper", "boss"]);
    assert.deepEqual(await readLineage(db, key(boss)), ["boss"]);
    assert.deepEqual(
      (await listOpenSubRuns(db, key(boss))).toSorted(),
      [helper, scribe].toSorted(),
    );
    assert.deepEqual(await listOpenSubRuns(db, key(stranger)), []);
    assert.deepEqual((await readRun(db, key(scribe)))?.parent, { runId: helper, toolCallId });
    assert.equal((await readRun(db, key(boss)))?.parent, null);
    const spent = await readRunSpent(db, key(boss));
    assert.deepEqual([spent?.steps, spent?.usage.totalTokens, spent?.costMicros], [0, 0, null]);
    assert.equal(await readRunSpent(db, key(testIds.next("run"))), null);
    const approvalId = testIds.next("apr");
    assert.equal(await findAskingRun(db, { ...key(boss), approvalId }), null);

    const foreign = (runId: string) => ({ tenantId: OTHER_TENANT, runId });
    assert.deepEqual(await readLineage(db, foreign(scribe)), []);
    assert.deepEqual(await listOpenSubRuns(db, foreign(boss)), []);
    assert.equal(await readRunSpent(db, foreign(boss)), null);
  });
});
