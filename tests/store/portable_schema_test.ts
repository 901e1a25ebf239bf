import assert from "node:assert/strict";
import { MIGRATIONS, withDatabase } from "../support/postgres.ts";

/** Not the tenants': it says which migrations the database has. */
const SHARED = ["schema_migrations"];

Deno.test("the schema keeps to what distributed databases can hold", async () => {
  await withDatabase(async (db) => {
    const keys = await db.read<{ name: string; table: string; kind: string; columns: string[] }[]>`
      select i.relname as name, t.relname as "table",
        case when x.indisprimary then 'primary' else 'unique' end as kind,
        array_to_json(array(select a.attname::text from unnest(x.indkey) with ordinality as k(attnum, place)
          join pg_attribute a on a.attrelid = t.oid and a.attnum = k.attnum order by k.place)) as columns
      from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class t on t.oid = x.indrelid
      where t.relnamespace = 'hub'::regnamespace and x.indisunique`;
    const tables = await db.read<{ name: string }[]>`select relname as name from pg_class
      where relnamespace = 'hub'::regnamespace and relkind in ('r', 'p')`;
    for (const { name } of tables) {
      if (SHARED.includes(name)) continue;
      const own = keys.filter(({ table }) => table === name);
      assert.ok(own.some(({ kind }) => kind === "primary"), `${name} has no primary key`);
      for (const key of own) {
        assert.equal(key.columns[0], "tenant_id", `${key.name}: tenant_id must lead`);
      }
    }
    const references = await db.read<{ name: string; own: string; other: string }[]>`
      select c.conname as name, a.attname::text as own, f.attname::text as other
      from pg_constraint c
      join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
      join pg_attribute f on f.attrelid = c.confrelid and f.attnum = c.confkey[1]
      where c.connamespace = 'hub'::regnamespace and c.contype = 'f'`;
    assert.ok(references.length > 5);
    for (const { name, own, other } of references) {
      assert.deepEqual([own, other], ["tenant_id", "tenant_id"], `${name}: tenant_id must lead`);
    }
    const forbidden = await db.read`select relname as name, relkind::text as kind from pg_class
      where relnamespace = 'hub'::regnamespace and relkind = 'S'
      union all select tgname, 'trigger' from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'hub'::regnamespace and not tgisinternal
      union all select attname, 'identity' from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = 'hub'::regnamespace and attidentity <> ''`;
    assert.deepEqual([...forbidden], [], "no sequences, identities or triggers");
  });
});

Deno.test("migrations only add: an older hub goes on beside a newer one", async () => {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(MIGRATIONS)) names.push(name);
  assert.deepEqual(names.filter((name) => !/^\d{4}_[a-z0-9_]+\.sql$/.test(name)), []);
  const numbers = names.sort().map((name) => Number(name.slice(0, 4)));
  assert.deepEqual(numbers, numbers.map((_, index) => index + 1), "numbered without a gap");
  for (const name of names) {
    const text = (await Deno.readTextFile(new URL(name, MIGRATIONS))).replace(/--.*$/gm, "");
    const bad =
      /\b(?:drop\s+(?:table|column|view)|rename\s+(?:to|column)|alter\s+column\s+\w+\s+type|concurrently|serial|nextval|truncate|create\s+extension|set\s+not\s+null)\b/i
        .exec(text);
    assert.equal(bad, null, `${name}: ${bad?.[0]}`);
  }
});

Deno.test("statements call no volatile function but now() in an update, and no sequence anywhere", async () => {
  const folder = new URL("../../src/store/", import.meta.url);
  for await (const { name } of Deno.readDir(folder)) {
    const text = await Deno.readTextFile(new URL(name, folder));
    const bad =
      /\b(?:nextval|clock_timestamp|statement_timestamp|gen_random_uuid|uuid_generate_v4)\s*\(/
        .exec(text);
    assert.equal(bad, null, `${name}: ${bad?.[0]}`);
    const locks = /pg_(?:try_)?advisory/.test(text);
    assert.ok(!locks || name === "migrate.ts", `${name}: only migrations take an advisory lock`);
  }
});
