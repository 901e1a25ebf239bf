import assert from "node:assert/strict";
import {
  clearCached,
  findCached,
  keepCached,
  pruneCached,
  readCacheOverview,
} from "../../src/store/cached_answers.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const OTHER = "00000000-0000-7000-8000-00000000000b";
const head = { target: "p/m", provider: "p", model: "m", headers: { "x-note": "ü" } };
const hashOf = (name: string) => new TextEncoder().encode(name.padEnd(32, "."));

Deno.test("cached answers in Postgres", async (t) => {
  await withDatabase(async (db) => {
    const [first, second] = [testIds.next("key"), testIds.next("key")];
    const keep = (name: string, more: { tenantId?: string; keyId?: string } = {}) =>
      keepCached(db, {
        tenantId: DEFAULT_TENANT_ID,
        keyId: first,
        hash: hashOf(name),
        head,
        bytes: new Uint8Array([0, 255, 10, 13]),
        seconds: 60,
        agedMs: 0,
        ...more,
      });
    const find = (name: string, tenantId = DEFAULT_TENANT_ID) =>
      findCached(db, { tenantId, hash: hashOf(name), seconds: 60 });

    await t.step("come back as they were, to their own tenant", async () => {
      await keep("a");
      const bytes = new Uint8Array([0, 255, 10, 13]);
      assert.deepEqual(await find("a"), { head, bytes, age: 0 });
      assert.equal(await find("a", OTHER), null);
      assert.equal(await find("b"), null);
      await keep("a", { tenantId: OTHER });
      assert.equal((await readCacheOverview(db, OTHER)).entries, 1);
    });

    await t.step("an operator drops a tenant's, or those of one key", async () => {
      for (const name of ["b", "c", "d"]) await keep(name, { keyId: second });
      const tenantId = DEFAULT_TENANT_ID;
      const { oldestMs, ...overview } = await readCacheOverview(db, tenantId);
      assert.ok(oldestMs !== null && oldestMs >= 0);
      assert.deepEqual(overview, {
        entries: 4,
        bytes: 4 * 404,
        hits: 0,
        calls: 0,
      });
      assert.equal(await clearCached(db, { tenantId, keyId: second, batch: 2 }), 3);
      assert.notEqual(await find("a"), null);
      assert.equal(await clearCached(db, { tenantId, keyId: null }), 1);
      assert.equal((await readCacheOverview(db, tenantId)).entries, 0);
      assert.notEqual(await find("a", OTHER), null);
    });

    await t.step("those that expired go in batches, whoever prunes", async () => {
      for (let at = 0; at < 9; at++) await keep(`${at}`);
      await db.control`update hub.cached_answers set expires_at = now()`;
      const options = { maxBytes: 1e9, batch: 2 };
      const dropped = await Promise.all([pruneCached(db, options), pruneCached(db, options)]);
      assert.equal((dropped[0] ?? 0) + (dropped[1] ?? 0), 10);
      assert.equal((await db.read`select 1 from hub.cached_answers`).length, 0);
    });
  });
});
