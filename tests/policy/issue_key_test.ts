import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { issueFirstKey } from "../../src/policy/issue_key.ts";
import { Pepper } from "../../src/policy/pepper.ts";
import { listKeys } from "../../src/store/keys.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

Deno.test("issueFirstKey: of several first starts at once exactly one makes a key", async () => {
  await withDatabase(async (db) => {
    const key = { bytes: new Uint8Array(32), id: "0".repeat(16) };
    const start = async () => {
      const pepper = await Pepper.load({ db, key, log: SILENT_LOG });
      return await issueFirstKey(db, { ids: testIds, randomBytes, pepper });
    };
    const tokens = await Promise.all(Array.from({ length: 8 }, start));
    assert.equal(tokens.filter((token) => token !== null).length, 1);
    const [stored, ...others] = await listKeys(db);
    assert.deepEqual(others, []);
    const pepper = await Pepper.load({ db, key, log: SILENT_LOG });
    const token = tokens.find((one) => one !== null) ?? "";
    assert.ok(stored !== undefined && pepper.isHashOf(token, stored.hash));
    assert.equal(await start(), null);
  });
});
