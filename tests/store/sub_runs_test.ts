import assert from "node:assert/strict";
import { toUuid } from "../../src/core/id.ts";
import { createRun } from "../../src/store/create_run.ts";
import { readRun, requestStop } from "../../src/store/runs.ts";
import { createSession } from "../../src/store/sessions.ts";
import {
  findAskingRun,
  listDesertedSubRuns,
  listOpenSubRuns,
  readLineage,
  readRunSpent,
} from "../../src/store/sub_runs.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { beginRun, callRow, write } from "../run/run_rig.ts";
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

Deno.test("a run is deserted once its call or the run of that is over", async () => {
  await withDatabase(async (db) => {
    const boss = await beginRun(db);
    const [first, second] = [testIds.next("call"), testIds.next("call")];
    const calls = (state: string) => ({
      toolCalls: [callRow(first, { state }), callRow(second, { index: 1 })],
    });
    await write(db, boss, [boss.start], calls("started"));
    const of = (toolCallId: string) => beginRun(db, { parent: { runId: boss.runId, toolCallId } });
    const [one, two] = [await of(first), await of(second)];
    const deserted = async () => (await listDesertedSubRuns(db)).map(({ runId }) => runId);
    assert.deepEqual(await deserted(), []);
    await write(db, boss, [{ type: "data", name: "note", data: 1 }], {
      ...calls("unknown"),
      after: 1,
    });
    assert.deepEqual(await deserted(), [one.runId]);
    await db.control`update hub.runs set status = 'failed', finished_at = now()
      where run_id = ${toUuid(boss.runId)}`;
    assert.deepEqual(await deserted(), [one.runId, two.runId]);
    await requestStop(db, { tenantId, runId: one.runId });
    await db.control`update hub.runs set status = 'completed', finished_at = now()
      where run_id = ${toUuid(two.runId)}`;
    assert.deepEqual(await deserted(), []);
  });
});
