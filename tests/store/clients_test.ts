import assert from "node:assert/strict";
import {
  readClientKeys,
  readClientSecret,
  saveClient,
  saveClientSecret,
} from "../../src/store/clients.ts";
import type { Database } from "../../src/store/database.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { withDatabase } from "../support/postgres.ts";

const tenantId = DEFAULT_TENANT_ID;
const otherTenant = "00000000-0000-7000-8000-000000000002";
const key = { bytes: new Uint8Array(32).fill(7), id: "0123456789abcdef" };
const clientId = () => `cli_${crypto.randomUUID().replaceAll("-", "")}`;
const api = (id: string) => ({ tenantId, clientId: id, field: "api_key" });

async function newClient(db: Database, name: string) {
  const id = clientId();
  await saveClient(db, { tenantId, clientId: id, name, kind: "openai", settings: { a: 1 } });
  return id;
}

Deno.test("providers and their secrets in Postgres", async (t) => {
  await withDatabase(async (db) => {
    await t.step("a provider is made once and then changed", async () => {
      const id = await newClient(db, "first");
      const changed = { name: "renamed", kind: "mistral", settings: { b: [2] } };
      await saveClient(db, { tenantId, clientId: id, ...changed });
      const rows = await db.within(db.read`select name, kind, settings from hub.clients`);
      assert.deepEqual([...rows], [changed]);
      await assert.rejects(newClient(db, "renamed"), { code: "internal_error" });
    });

    await t.step("a secret is read as it was given, and replaced by the next", async () => {
      const id = await newClient(db, "second");
      assert.equal(await readClientSecret(db, { ...api(id), key }), null);
      for (const value of ["sk-one-ä🔑", "sk-two", ""]) {
        await saveClientSecret(db, { ...api(id), value, key });
        assert.equal(await readClientSecret(db, { ...api(id), key }), value);
      }
      assert.equal(await readClientSecret(db, { ...api(id), field: "other", key }), null);
      const elsewhere = { ...api(id), tenantId: otherTenant, key };
      assert.equal(await readClientSecret(db, elsewhere), null);
    });

    await t.step("the rows hold nothing in the clear", async () => {
      const id = await newClient(db, "third");
      const value = "sk-very-secret-value";
      await saveClientSecret(db, { ...api(id), value, key });
      const [row] = await db.within(db.read<{ text: string }[]>`
        select s::text || c::text as text from hub.client_secrets s join hub.clients c using (client_id)
        where c.name = 'third'`);
      assert.ok(row !== undefined && row.text.includes(key.id));
      const { text } = row;
      const forms = [
        value,
        btoa(value),
        new TextEncoder().encode(value).toHex(),
        key.bytes.toHex(),
      ];
      for (const form of forms) assert.ok(!text.includes(form), form);
    });

    await t.step("rows that were swapped or changed do not open", async () => {
      const [a, b] = [await newClient(db, "a"), await newClient(db, "b")];
      await saveClientSecret(db, { ...api(a), value: "sk-a", key });
      await saveClientSecret(db, { ...api(b), value: "sk-b", key });
      const refused = { code: "invalid_configuration", message: /not what was sealed/ };
      await db.within(db.control`
        update hub.client_secrets s set nonce = o.nonce, ciphertext = o.ciphertext
        from hub.client_secrets o join hub.clients oc using (client_id), hub.clients c
        where c.client_id = s.client_id and c.name = 'a' and oc.name = 'b'`);
      await assert.rejects(readClientSecret(db, { ...api(a), key }), refused);
      assert.equal(await readClientSecret(db, { ...api(b), key }), "sk-b");
      await db.within(db.control`
        update hub.client_secrets s set ciphertext = set_byte(ciphertext, 0, get_byte(ciphertext, 0) # 1)
        from hub.clients c where c.client_id = s.client_id and c.name = 'b'`);
      await assert.rejects(readClientSecret(db, { ...api(b), key }), refused);
      await db.within(db.control`delete from hub.clients where name in ('a', 'b')`);
    });

    await t.step("all keys by provider name: this tenant's, and only API keys", async () => {
      await db.within(db.control`delete from hub.clients`);
      const id = await newClient(db, "with-key");
      await saveClientSecret(db, { ...api(id), value: "sk-1", key });
      await saveClientSecret(db, { ...api(id), field: "webhook", value: "w", key });
      await newClient(db, "without-key");
      const foreign = { tenantId: otherTenant, clientId: clientId() };
      await saveClient(db, { ...foreign, name: "foreign", kind: "openai", settings: {} });
      await saveClientSecret(db, { ...foreign, field: "api_key", value: "sk-2", key });
      assert.deepEqual(
        await readClientKeys(db, { tenantId, key }),
        new Map([["with-key", "sk-1"]]),
      );
      assert.deepEqual(
        await readClientKeys(db, { tenantId: otherTenant, key }),
        new Map([["foreign", "sk-2"]]),
      );
    });

    await t.step("another master key is refused by name", async () => {
      const other = { bytes: new Uint8Array(32).fill(8), id: "fedcba9876543210" };
      await assert.rejects(readClientKeys(db, { tenantId, key: other }), {
        code: "invalid_configuration",
        message: /0123456789abcdef.*fedcba9876543210/,
      });
    });

    await t.step("secrets go with their provider, and need one", async () => {
      await db.within(db.control`delete from hub.clients`);
      const rows = await db.within(db.read`select field from hub.client_secrets`);
      assert.equal(rows.length, 0);
      const orphan = { ...api(clientId()), value: "sk", key };
      await assert.rejects(saveClientSecret(db, orphan), { code: "internal_error" });
    });
  });
});
