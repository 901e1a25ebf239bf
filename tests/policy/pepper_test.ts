import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { derivePepper, hashApiKey } from "../../src/policy/api_key.ts";
import { Pepper } from "../../src/policy/pepper.ts";
import type { MasterKey } from "../../src/store/master_key.ts";
import { withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

const one: MasterKey = { bytes: new Uint8Array(32).fill(1), id: "1111111111111111" };
const two: MasterKey = { bytes: new Uint8Array(32).fill(2), id: "2222222222222222" };
const hash = hashApiKey("lh_token", derivePepper(one.bytes));

Deno.test("the pepper of API keys outlives the master key that it came from", async () => {
  await withDatabase(async (db) => {
    const load = (key: MasterKey) => Pepper.load({ db, key, log: SILENT_LOG });
    const rows = async () =>
      (await db.within(db.read`select master_key_id from hub.secrets`)).length;

    // A database from before peppers were stored, and two master keys in either order.
    for (const key of [{ ...one, former: [two] }, { ...two, former: [one] }]) {
      const pepper = await load(key);
      assert.throws(() => pepper.value, { code: "invalid_configuration" });
      assert.equal(pepper.isHashOf("lh_other", hash), false);
      assert.throws(() => pepper.value, { code: "invalid_configuration" });
    }
    assert.equal(await rows(), 0, "a wrong guess is never stored");

    const pepper = await load({ ...two, former: [one] });
    assert.ok(pepper.isHashOf("lh_token", hash));
    assert.deepEqual(pepper.value, derivePepper(one.bytes));
    await eventually(async () => await rows() === 1 || null);
    const later = await load(two);
    assert.ok(later.isHashOf("lh_token", hash));
    assert.equal(await later.store(), false);
    await assert.rejects(load(one), { code: "invalid_configuration" });
  });
});

Deno.test("browser tokens are signed with the pepper that is known, and checked with any that may be it", async () => {
  await withDatabase(async (db) => {
    const load = (key: MasterKey) => Pepper.load({ db, key, log: SILENT_LOG });
    const signed = (await load(one)).sign("payload");

    const pepper = await load({ ...two, former: [one] });
    assert.throws(() => pepper.sign("payload"), { code: "invalid_configuration" });
    assert.equal(pepper.isSignatureOf("other", signed), false);
    assert.throws(() => pepper.value, { code: "invalid_configuration" });
    assert.ok(pepper.isSignatureOf("payload", signed));
    assert.equal(pepper.sign("payload"), signed, "what it shows is known from then on");
    await eventually(async () =>
      (await db.within(db.read`select 1 from hub.secrets`)).length === 1 || null
    );
    assert.ok((await load(two)).isSignatureOf("payload", signed));
  });
});
