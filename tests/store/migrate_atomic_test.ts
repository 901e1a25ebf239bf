import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import postgres from "postgres";
import { SILENT_LOG } from "../../src/core/log.ts";
import { migrate } from "../../src/store/migrate.ts";
import { startTestPostgres } from "../support/postgres.ts";

Deno.test("a migration and the row that names it are written together or not at all", async () => {
  const server = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-migrations-" });
  const sql = postgres(server.url, { max: 1, onnotice() {} });
  try {
    await Deno.writeTextFile(
      `${folder}/0001_one.sql`,
      "create table hub.one (id int primary key);",
    );
    await Deno.writeTextFile(`${folder}/0002_two.sql`, "create table hub.two (id int primary key)");
    await sql`create schema hub`;
    await sql`create table hub.schema_migrations (name text primary key, checksum text not null,
      applied_at timestamptz not null default now(), constraint refuse check (name <> '0002_two.sql'))`;
    const options = { folder: pathToFileURL(`${folder}/`), log: SILENT_LOG };
    const tables = async () =>
      (await sql`select to_regclass('hub.one')::text as one, to_regclass('hub.two')::text as two`)[
        0
      ];

    await assert.rejects(migrate(server.url, options), /refuse/);
    assert.deepEqual({ ...await tables() }, { one: "hub.one", two: null });

    await sql`alter table hub.schema_migrations drop constraint refuse`;
    assert.deepEqual(await migrate(server.url, options), { applied: ["0002_two.sql"], total: 2 });
    assert.deepEqual({ ...await tables() }, { one: "hub.one", two: "hub.two" });
  } finally {
    await sql.end();
    await Deno.remove(folder, { recursive: true });
    await server.stop();
  }
});
