import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { derivePepper, hashApiKey, isHashOf, makeApiKey } from "../../src/policy/api_key.ts";
import { createAuthenticate } from "../../src/policy/authenticate.ts";
import { KeySnapshots } from "../../src/policy/key_snapshot.ts";
import type { Database } from "../../src/store/database.ts";
import { createKey, listKeys, readKeyByLookup } from "../../src/store/keys.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { systemClock } from "../support/system_clock.ts";

const tenantId = DEFAULT_TENANT_ID;
const pepper = derivePepper(new Uint8Array(32).fill(3));

async function newKey(db: Database, name: string, role: "user" | "admin" = "user") {
  const { token, lookupId } = makeApiKey((length) =>
    crypto.getRandomValues(new Uint8Array(length))
  );
  const hash = hashApiKey(token, pepper);
  const keyId = testIds.next("key");
  await createKey(db, { tenantId, keyId, name, role, lookupId, hash });
  return { token, lookupId, keyId, hash: new Uint8Array(hash) };
}

Deno.test("API keys in Postgres", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a key is found by its lookup id and in the list", async () => {
      const { keyId, lookupId, hash } = await newKey(db, "laptop", "admin");
      const facts = { tenantId, keyId, name: "laptop", role: "admin" as const, lookupId, hash };
      const read = await readKeyByLookup(db, lookupId);
      assert.ok(Math.abs((read?.createdAt ?? 0) - Date.now()) < 60_000);
      const stored = {
        ...facts,
        expiresAt: null,
        revokedAt: null,
        createdAt: read?.createdAt,
        owner: null,
        tags: [],
        policy: {},
        former: null,
      };
      assert.deepEqual(read, stored);
      assert.deepEqual(await listKeys(db), [stored]);
      assert.equal(await readKeyByLookup(db, "0".repeat(16)), null);
      assert.equal(await readKeyByLookup(db, "' or true --"), null);
    });

    await t.step("the row holds a hash, never the token", async () => {
      const { token, lookupId, hash } = await newKey(db, "clear");
      const [row] = await db.within(db.read<{ text: string }[]>`
        select k::text as text from hub.api_keys k where lookup_id = ${lookupId}`);
      assert.ok(row !== undefined && row.text.includes(hash.toHex()));
      const secret = token.split("_")[2] ?? "";
      for (const form of [token, secret, new TextEncoder().encode(token).toHex()]) {
        assert.ok(!row.text.includes(form));
      }
    });

    await t.step("a lookup id and a key id are taken once; roles are two", async () => {
      const { keyId, lookupId, hash } = await newKey(db, "once");
      const again = { tenantId, name: "x", role: "user" as const, hash };
      const other = testIds.next("key");
      const failed = { code: "internal_error" };
      await assert.rejects(createKey(db, { ...again, keyId: other, lookupId }), failed);
      await assert.rejects(createKey(db, { ...again, keyId, lookupId: "f".repeat(16) }), failed);
      const root = { ...again, role: "root" as "user", keyId: other, lookupId: "e".repeat(16) };
      await assert.rejects(createKey(db, root), failed);
    });

    await t.step("expired and revoked keys are stored as such and refused", async () => {
      const good = await newKey(db, "good");
      const revoked = await newKey(db, "revoked");
      const expired = await newKey(db, "expired");
      const later = await newKey(db, "later");
      await db.within(db.control`
        update hub.api_keys set revoked_at = '2026-01-02T03:04:05.678Z' where name = 'revoked'`);
      await db.within(db.control`
        update hub.api_keys set expires_at = now() - interval '1 second' where name = 'expired'`);
      await db.within(db.control`
        update hub.api_keys set expires_at = now() + interval '1 hour' where name = 'later'`);
      const row = await readKeyByLookup(db, revoked.lookupId);
      assert.equal(row?.revokedAt, Date.UTC(2026, 0, 2, 3, 4, 5, 678));

      const snapshots = new KeySnapshots({
        db,
        clock: systemClock,
        log: SILENT_LOG,
        refreshMs: 60_000,
      });
      await snapshots.refresh();
      const authenticate = createAuthenticate({
        snapshot: () => snapshots.current,
        lookup: (lookupId) => readKeyByLookup(db, lookupId),
        isHashOf: (token, hash) => isHashOf(token, hash, pepper),
        isSignatureOf: () => false,
        clock: systemClock,
      });
      const check = async (token: string) => (await authenticate(token)).keyName;
      const refused = { code: "invalid_api_key" };
      assert.equal(await check(good.token), "good");
      assert.equal(await check(later.token), "later");
      await assert.rejects(check(revoked.token), refused);
      await assert.rejects(check(expired.token), refused);

      const fresh = await newKey(db, "made-after-the-snapshot");
      assert.equal(await check(fresh.token), "made-after-the-snapshot");

      const before = snapshots.current;
      await snapshots.refresh();
      assert.notEqual(snapshots.current, before);
      const same = snapshots.current;
      await snapshots.refresh();
      assert.equal(snapshots.current, same);

      await db.within(db.control`update hub.api_keys set revoked_at = now() where name = 'good'`);
      await snapshots.refresh();
      await assert.rejects(check(good.token), refused);
      assert.equal(await check(later.token), "later");
    });
  });
});
