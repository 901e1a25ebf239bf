import assert from "node:assert/strict";
import {
  openSecrets,
  proveClientKey,
  pruneClientSecrets,
  resealClientSecrets,
  type SealedField,
  sealField,
  type SecretField,
} from "../../src/store/client_secrets.ts";
import {
  changeClient,
  createClient,
  listClients,
  removeClient,
  rotateClientKey,
  type StoredClient,
} from "../../src/store/clients.ts";
import { type Database, isUniqueViolation } from "../../src/store/database.ts";
import { readHubSecret, resealHubSecret } from "../../src/store/hub_secrets.ts";
import type { MasterKey } from "../../src/store/master_key.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
const otherTenant = "00000000-0000-7000-8000-000000000002";
const key = { bytes: new Uint8Array(32).fill(7), id: "0123456789abcdef" };
const newest = { bytes: new Uint8Array(32).fill(8), id: "fedcba9876543210", former: [key] };

const audit = (action = "provider.test") => ({
  auditId: testIds.next("aud"),
  actorKeyId: null,
  action,
  details: {},
});
const seal = (clientId: string, value: string, field: SecretField = "api_key") =>
  sealField(value, { tenantId, clientId, field, key });

async function newClient(db: Database, name: string, apiKey?: string): Promise<string> {
  const clientId = testIds.next("cli");
  const secrets: SealedField[] = apiKey === undefined ? [] : [await seal(clientId, apiKey)];
  const client = { tenantId, clientId, name, kind: "openai", settings: { a: 1 } };
  await createClient(db, { ...client, secrets, audit: audit() });
  return clientId;
}

async function find(db: Database, clientId: string): Promise<StoredClient> {
  const [client] = await listClients(db, { tenantId, clientId });
  assert.ok(client !== undefined);
  return client;
}

const opened = async (db: Database, clientId: string) =>
  await openSecrets(await find(db, clientId), newest);

const rotate = async (db: Database, clientId: string, value: string) =>
  await rotateClientKey(db, {
    tenantId,
    clientId,
    version: (await find(db, clientId)).version,
    audit: audit(),
    sealed: await seal(clientId, value),
  });

const reseal = async (db: Database, by: MasterKey) =>
  await resealClientSecrets(db, await listClients(db, { tenantId }), by);

const prove = async (db: Database, clientId: string) => {
  const { secrets } = await find(db, clientId);
  const nonce = secrets.find(({ field }) => field === "api_key")?.nonce ?? new Uint8Array();
  return await proveClientKey(db, { tenantId, clientId, nonce });
};

Deno.test("providers and their secrets in Postgres", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a provider is made once, changed and removed, with audit rows", async () => {
      const clientId = await newClient(db, "first", "sk-one-ä🔑");
      await assert.rejects(newClient(db, "first"), (error) => isUniqueViolation(error));
      assert.deepEqual(await opened(db, clientId), { api_key: "sk-one-ä🔑" });
      const secrets = [await seal(clientId, ""), await seal(clientId, "{}", "headers")];
      const { version } = await find(db, clientId);
      const change = { tenantId, clientId, version, kind: "mistral", settings: { b: [2] } };
      assert.ok(await changeClient(db, { ...change, secrets, audit: audit() }));
      assert.equal(await changeClient(db, { ...change, secrets, audit: audit() }), false);
      const { kind, settings } = await find(db, clientId);
      assert.deepEqual({ kind, settings }, { kind: "mistral", settings: { b: [2] } });
      assert.deepEqual(await opened(db, clientId), { headers: "{}" });
      const foreign = { ...change, tenantId: otherTenant, secrets: [], audit: audit() };
      assert.equal(await changeClient(db, foreign), false);
      assert.equal(await removeClient(db, foreign), false);
      assert.ok(await removeClient(db, { tenantId, clientId, audit: audit("provider.remove") }));
      assert.deepEqual(await listClients(db, { tenantId, clientId }), []);
      const rows = await db.within(db.read`select field from hub.client_secrets`);
      assert.equal(rows.length, 0);
      const noted = await db.within(
        db.read`select action, subject from hub.audit order by audit_id`,
      );
      assert.equal(noted.length, 3);
      for (const { subject } of noted) assert.equal(subject, clientId);
    });

    await t.step(
      "the former key holds until the new one was seen to work, and a while",
      async () => {
        const clientId = await newClient(db, "second", "k1");
        await rotate(db, clientId, "k2");
        assert.deepEqual(await opened(db, clientId), { api_key: "k2", api_key_former: "k1" });
        await rotate(db, clientId, "k3");
        assert.deepEqual(
          await opened(db, clientId),
          { api_key: "k3", api_key_former: "k1" },
          "k2 never worked",
        );
        assert.ok(await prove(db, clientId));
        assert.equal(await prove(db, clientId), false);
        const former = (await find(db, clientId)).secrets.find(({ field }) => field !== "api_key");
        assert.ok((former?.expiresAt ?? 0) > Date.now() + 200_000);
        await rotate(db, clientId, "k4");
        assert.deepEqual(await opened(db, clientId), { api_key: "k4", api_key_former: "k3" });
        const wrong = { tenantId, clientId, nonce: new Uint8Array(12) };
        assert.equal(await proveClientKey(db, wrong), false);
        await prove(db, clientId);
        await db.within(db.control`
        update hub.client_secrets set expires_at = now() where tenant_id = ${tenantId}
          and expires_at is not null`);
        assert.deepEqual(await opened(db, clientId), { api_key: "k4" });
        assert.equal(await pruneClientSecrets(db), 1);
        assert.equal(await pruneClientSecrets(db), 0);
        await Promise.all([rotate(db, clientId, "k5"), rotate(db, clientId, "k6")]);
        const { api_key: now = "", api_key_former: before } = await opened(db, clientId);
        assert.ok(["k5", "k6"].includes(now));
        assert.equal(before, "k4");
      },
    );

    await t.step("the rows hold nothing in the clear", async () => {
      const value = "sk-very-secret-value";
      await newClient(db, "third", value);
      const [row] = await db.within(db.read<{ text: string }[]>`
        select s::text || c::text as text from hub.client_secrets s join hub.clients c using (client_id)
        where c.name = 'third'`);
      assert.ok(row !== undefined && row.text.includes(key.id));
      const { text } = row;
      const hex = new TextEncoder().encode(value).toHex();
      for (const form of [value, btoa(value), hex, key.bytes.toHex()]) {
        assert.ok(!text.includes(form), form);
      }
    });

    await t.step("rows that were swapped or changed do not open", async () => {
      const [a, b] = [await newClient(db, "a", "sk-a"), await newClient(db, "b", "sk-b")];
      const refused = { code: "invalid_configuration", message: /not what was sealed/ };
      await db.within(db.control`
        update hub.client_secrets s set nonce = o.nonce, ciphertext = o.ciphertext
        from hub.client_secrets o join hub.clients oc using (client_id), hub.clients c
        where c.client_id = s.client_id and c.name = 'a' and oc.name = 'b'`);
      await assert.rejects(opened(db, a), refused);
      assert.deepEqual(await opened(db, b), { api_key: "sk-b" });
      await db.within(db.control`
        update hub.client_secrets s set ciphertext = set_byte(ciphertext, 0, get_byte(ciphertext, 0) # 1)
        from hub.clients c where c.client_id = s.client_id and c.name = 'b'`);
      await assert.rejects(opened(db, b), refused);
      await db.within(db.control`delete from hub.clients where name in ('a', 'b')`);
    });

    await t.step(
      "another master key is refused by name, and reseals what it can read",
      async () => {
        const clientId = await newClient(db, "old", "sk-old");
        const other = { bytes: new Uint8Array(32).fill(9), id: "9999999999999999" };
        await assert.rejects(openSecrets(await find(db, clientId), other), {
          code: "invalid_configuration",
          message: /0123456789abcdef.*9999999999999999/,
        });
        const lost = await reseal(db, other);
        assert.deepEqual([lost.resealed, lost.left > 0], [0, true]);
        const { resealed, left } = await reseal(db, newest);
        assert.equal(left, 0);
        assert.ok(resealed > 2);
        const { id, bytes } = newest;
        const alone = await openSecrets(await find(db, clientId), { id, bytes });
        assert.deepEqual(alone, { api_key: "sk-old" });
        const again = await reseal(db, newest);
        assert.deepEqual(again, { resealed: 0, left: 0 });
      },
    );

    await t.step("the hub's own secrets are stored once and sealed again", async () => {
      const place = { tenantId, name: "pepper" };
      assert.equal(await readHubSecret(db, { ...place, key }), null);
      assert.ok(await resealHubSecret(db, { ...place, value: "one", key }));
      assert.equal(await resealHubSecret(db, { ...place, value: "two", key }), false);
      assert.ok(await resealHubSecret(db, { ...place, value: "two", key: newest }));
      const { id, bytes } = newest;
      assert.equal(await readHubSecret(db, { ...place, key: { id, bytes } }), "one");
      await assert.rejects(readHubSecret(db, { ...place, key }), { code: "invalid_configuration" });
    });
  });
});
