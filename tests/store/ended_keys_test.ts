import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { Database } from "../../src/store/database.ts";
import { listRunsOfEndedKeys, readKeyEnd } from "../../src/store/ended_keys.ts";
import { createKey } from "../../src/store/keys.ts";
import { requestStop } from "../../src/store/runs.ts";
import { beginRun, tenantId } from "../run/run_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

/** A key, and a run that it has begun. */
async function keyWithRun(db: Database, status: "running" | "waiting") {
  const keyId = testIds.next("key");
  const lookupId = keyId.slice(-16);
  const hash = new Uint8Array(32);
  await createKey(db, { tenantId, keyId, name: "k", role: "user", lookupId, hash });
  const { runId } = await beginRun(db, { caller: { keyId, requestId: "r" } });
  await db.control`update hub.runs set status = ${status} where run_id = ${toUuid(runId as Id)}`;
  const set = (column: "revoked_at" | "expires_at", seconds: number) =>
    db.control`update hub.api_keys
      set ${db.control(column)} = now() + ${seconds}::float8 * interval '1 second'
      where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)}`;
  return { keyId, runId, set };
}

Deno.test("runs of ended keys are listed until they are asked to stop", async (t) => {
  await withDatabase(async (db) => {
    const listed = async (runId: string) =>
      (await listRunsOfEndedKeys(db)).find((run) => run.runId === runId)?.end ?? null;

    await t.step("one that waits for people: at once", async () => {
      const { keyId, runId, set } = await keyWithRun(db, "waiting");
      const key = { tenantId, keyId };
      assert.equal(await listed(runId), null);
      await set("expires_at", 60);
      assert.deepEqual([await listed(runId), await readKeyEnd(db, key)], [null, null]);
      await set("expires_at", -1);
      assert.deepEqual([await listed(runId), await readKeyEnd(db, key)], ["expired", "expired"]);
      await set("revoked_at", -1);
      assert.deepEqual([await listed(runId), await readKeyEnd(db, key)], ["revoked", "revoked"]);
      await requestStop(db, { tenantId, runId });
      assert.equal(await listed(runId), null);
    });

    await t.step("one that is driven: when its replica has not stopped it in time", async () => {
      const { runId, set } = await keyWithRun(db, "running");
      await set("revoked_at", -5);
      assert.equal(await listed(runId), null);
      await set("revoked_at", -20);
      assert.equal(await listed(runId), "revoked");
    });

    await t.step("a key of another tenant, or without a row, has not ended", async () => {
      const { keyId, set } = await keyWithRun(db, "waiting");
      await set("revoked_at", -1);
      assert.equal(await readKeyEnd(db, { tenantId: crypto.randomUUID(), keyId }), null);
      assert.equal(await readKeyEnd(db, { tenantId, keyId: testIds.next("key") }), null);
    });
  });
});
