import assert from "node:assert/strict";
import postgres from "postgres";
import { createSession } from "../../src/store/sessions.ts";
import { testIds, withDatabase } from "../support/postgres.ts";

const TENANTS = ["00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b"];

/** What docs/security.md says of row-level security. */
Deno.test("another role sees the tenant in app.tenant, through the views too, and the hub sees all", async () => {
  await withDatabase(async (db, url) => {
    for (const tenantId of TENANTS) {
      const sessionId = testIds.next("ses");
      await createSession(db, {
        tenantId,
        sessionId,
        agent: "default",
        keyId: testIds.next("key"),
      });
    }
    const role = `reader_${crypto.randomUUID().replaceAll("-", "")}`;
    await db.control.unsafe(
      `create role ${role} login password 'x'; grant usage on schema hub to ${role};
      grant select on all tables in schema hub to ${role}`,
    ).simple();
    const address = new URL(url);
    address.username = role;
    address.password = "x";
    const reader = postgres(address.href, { max: 1, onnotice() {} });
    const seen = async (tenant: string | null) => {
      if (tenant !== null) await reader`select set_config('app.tenant', ${tenant}, false)`;
      const rows = await reader`select tenant_id from hub.sessions order by 1`;
      return rows.map((row) => row["tenant_id"]);
    };
    try {
      assert.deepEqual(await seen(null), []);
      for (const tenant of TENANTS) assert.deepEqual(await seen(tenant), [tenant]);
      const overview = () => reader`select 1 from hub.session_overview`;
      assert.equal((await overview()).length, 1);
      assert.deepEqual(await seen(""), []);
      assert.equal((await overview()).length, 0);
      assert.equal((await db.read`select 1 from hub.session_overview`).length, 2);
      const tables = await db.read`select relname from pg_class
        where relnamespace = 'hub'::regnamespace and relkind = 'r' and not relrowsecurity`;
      assert.deepEqual(tables.map((row) => row["relname"]), ["schema_migrations"]);
      const open = await db.read`select relname from pg_class
        where relnamespace = 'hub'::regnamespace and relkind = 'v'
          and current_setting('server_version_num')::int >= 150000
          and not coalesce(reloptions, '{}') @> '{security_invoker=true}'`;
      assert.deepEqual(open.map((row) => row["relname"]), []);
      assert.equal((await db.read`select 1 from hub.sessions`).length, 2);
    } finally {
      await reader.end();
      await db.control.unsafe(`revoke all on all tables in schema hub from ${role};
        revoke usage on schema hub from ${role}; drop role ${role}`).simple();
    }
  });
});
