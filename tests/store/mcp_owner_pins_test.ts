import assert from "node:assert/strict";
import {
  addOwnerPins,
  listOwnerPins,
  pinFirst,
  readOwnerPins,
} from "../../src/store/mcp_owner_pins.ts";
import { pruneRevokedOwners } from "../../src/store/mcp_authorizations.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { withDatabase } from "../support/postgres.ts";

Deno.test("what an owner's server listed first counts, with what was approved, for one owner and one way to reach it", async () => {
  await withDatabase(async (db) => {
    const [ada, eve] = [crypto.randomUUID(), crypto.randomUUID()];
    const place = { tenantId: DEFAULT_TENANT_ID, server: "far", owner: ada, configHash: "one" };
    assert.equal(await readOwnerPins(db, place), null);
    assert.deepEqual(await pinFirst(db, { ...place, pins: { a: "1" } }), { a: "1" });
    assert.deepEqual(await pinFirst(db, { ...place, pins: { a: "2", b: "2" } }), { a: "1" });
    await addOwnerPins(db, { ...place, pins: { a: "3" } });
    assert.deepEqual(await readOwnerPins(db, place), { a: "3" });
    assert.equal(await readOwnerPins(db, { ...place, owner: eve }), null);
    assert.equal(await readOwnerPins(db, { ...place, tenantId: crypto.randomUUID() }), null);
    assert.equal(await readOwnerPins(db, { ...place, configHash: "two" }), null);
    await addOwnerPins(db, { ...place, server: "near", owner: eve, pins: { x: "1" } });
    const listed = await listOwnerPins(db, { tenantId: DEFAULT_TENANT_ID, owners: [ada] });
    assert.deepEqual(listed, [{ ...place, pins: { a: "3" } }]);
    assert.deepEqual(await pinFirst(db, { ...place, configHash: "two", pins: { c: "1" } }), {
      c: "1",
    });
    assert.equal(await readOwnerPins(db, place), null);
    await pruneRevokedOwners(db);
    assert.deepEqual(await readOwnerPins(db, { ...place, configHash: "two" }), { c: "1" });
  });
});
