import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import postgres from "postgres";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { migrate } from "../../src/store/migrate.ts";
import { MIGRATIONS, startTestPostgres } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

type Sql = postgres.Sql<Record<string, never>>;

/** A folder of migrations that a test writes itself. */
async function withFolder(
  files: Record<string, string>,
  body: (folder: URL, write: (name: string, text: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const path = await Deno.makeTempDir({ prefix: "loophub-migrations-" });
  const write = (name: string, text: string) => Deno.writeTextFile(`${path}/${name}`, text);
  try {
    for (const [name, text] of Object.entries(files)) await write(name, text);
    await body(pathToFileURL(`${path}/`), write);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

async function applied(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`select name from hub.schema_migrations order by name`;
  return rows.map((row) => row.name);
}

async function tables(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select table_name as name from information_schema.tables
    where table_schema = 'hub' and table_name <> 'schema_migrations' order by 1`;
  return rows.map((row) => row.name);
}

Deno.test("migrations", async (t) => {
  const server = await startTestPostgres({ migrated: false });
  const admin = postgres(server.url, { max: 1, onnotice() {} }) as Sql;

  /** Runs a step on an empty database of its own. */
  const step = (name: string, body: (url: string, sql: Sql) => Promise<void>) =>
    t.step(name, async () => {
      const database = `migrate_${crypto.randomUUID().replaceAll("-", "")}`;
      await admin.unsafe(`create database ${database}`);
      const url = new URL(server.url);
      url.pathname = `/${database}`;
      const sql = postgres(url.href, { max: 1, onnotice() {} }) as Sql;
      try {
        await body(url.href, sql);
      } finally {
        await sql.end();
        await admin.unsafe(`drop database ${database}`);
      }
    });
  const run = (url: string, folder = MIGRATIONS) => migrate(url, { folder, log: SILENT_LOG });

  try {
    await step("a database that cannot be used is named with the reason", async (url, sql) => {
      const at = (change: (address: URL) => void) => {
        const address = new URL(url);
        change(address);
        return run(address.href);
      };
      const { host, pathname } = new URL(url);
      await sql.unsafe(
        `alter database ${pathname.slice(1)} set default_transaction_read_only = on`,
      );
      await assert.rejects(run(url), {
        name: "HubError",
        message: `Postgres at ${host}${pathname} cannot be used: ` +
          "cannot execute CREATE SCHEMA in a read-only transaction",
      });
      await assert.rejects(at((address) => address.pathname = "/nowhere"), {
        name: "HubError",
        message: `Postgres at ${host}/nowhere cannot be used: database "nowhere" does not exist`,
      });
      await assert.rejects(at((address) => address.port = "1"), {
        code: "database_unavailable",
        message: /^Postgres at .*:1\/migrate_\w+ cannot be used: connect ECONNREFUSED/,
      });
    });

    await step("a database that does not hold all text is refused", async (url) => {
      const name = `latin_${crypto.randomUUID().replaceAll("-", "")}`;
      await admin.unsafe(`create database ${name} encoding 'LATIN1' template template0 locale 'C'`);
      const latin = new URL(url);
      latin.pathname = `/${name}`;
      try {
        await assert.rejects(run(latin.href), {
          code: "invalid_configuration",
          message: "The database is encoded as LATIN1: make one with the encoding UTF8",
        });
      } finally {
        await admin.unsafe(`drop database ${name}`);
      }
    });

    await step("starts at once apply each file once, and all find all of it", async (url, sql) => {
      const results = await Promise.all(Array.from({ length: 6 }, () => run(url)));
      const names = await applied(sql);
      assert.ok(names.includes("0001_hub.sql"));
      assert.equal(new Set(names).size, names.length);
      assert.deepEqual(results.flatMap((result) => result.applied).sort(), names);
      assert.deepEqual(results.map((result) => result.total), Array(6).fill(names.length));
    });

    await step(
      "the first starts at once on an empty database meet without an error",
      async (url, sql) => {
        await withFolder({ "0001_a.sql": "create table hub.a (x int)" }, async (folder) => {
          for (let round = 0; round < 5; round++) {
            await sql`drop schema if exists hub cascade`;
            const results = await Promise.all(Array.from({ length: 6 }, () => run(url, folder)));
            assert.deepEqual(results.flatMap(({ applied }) => applied), ["0001_a.sql"]);
          }
        });
      },
    );

    await step("a file that another replica is applying is waited for", async (url, sql) => {
      const files = { "0001_a.sql": "create table hub.a (x int)", "0002_b.sql": "select 1" };
      await withFolder({ "0001_a.sql": "select 1" }, (folder) => run(url, folder).then(() => {}));
      await sql`delete from hub.schema_migrations`;
      await withFolder(files, async (folder) => {
        const other = postgres(url, { max: 1, onnotice() {} }) as Sql;
        try {
          const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
          const { promise: waits, resolve: done } = Promise.withResolvers<void>();
          const theirs = other.begin(async (tx) => {
            // What the other one does: the record, then the file.
            await tx`insert into hub.schema_migrations (name, checksum)
              values ('0001_a.sql', encode(sha256('create table hub.a (x int)'), 'hex'))`;
            await tx`create table hub.a (x int)`;
            begin();
            await waits;
          });
          await begun;
          const ours = run(url, folder);
          await eventually(async () =>
            (await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock'
              and datname = current_database()`).length > 0
              ? true
              : null
          );
          done();
          await theirs;
          assert.deepEqual(await ours, { applied: ["0002_b.sql"], total: 2 });
        } finally {
          await other.end();
        }
      });
    });

    await step(
      "another version of a file that was applied meanwhile is refused",
      async (url, sql) => {
        await withFolder({ "0001_a.sql": "create table hub.a (x int)" }, async (folder, write) => {
          const text = "create table hub.a (x int); select pg_sleep(0.3)";
          const slow = withFolder(
            { "0001_a.sql": text },
            (other) => run(url, other).then(() => {}),
          );
          await write("0001_a.sql", "create table hub.b (x int); select pg_sleep(0.3)");
          const [first, second] = await Promise.allSettled([slow, run(url, folder)]);
          const failures = [first, second].flatMap((end) => end.status === "rejected" ? [end] : []);
          assert.equal(failures.length, 1);
          assert.equal(failures[0]?.reason.code, "invalid_configuration");
          assert.match(failures[0]?.reason.message, /0001_a\.sql has changed/);
          assert.equal((await tables(sql)).length, 1);
        });
      },
    );

    await step("a second run changes nothing", async (url, sql) => {
      await run(url);
      const rows = () => sql`select name, checksum, applied_at::text from hub.schema_migrations`;
      const before = await rows();
      assert.deepEqual((await run(url)).applied, []);
      assert.deepEqual(await rows(), before);
    });

    await step("one line says how many were applied, and none when none was", async (url) => {
      const lines: [level: string, message: string, fields: unknown][] = [];
      const note = (level: string): Log["info"] => (message, fields) =>
        void lines.push([level, message, fields]);
      const log: Log = { ...SILENT_LOG, debug: note("debug"), info: note("info") };
      await withFolder(
        { "0001_a.sql": "create table hub.a (x int)", "0002_b.sql": "create table hub.b (x int)" },
        async (folder) => {
          await migrate(url, { folder, log });
          await migrate(url, { folder, log });
        },
      );
      assert.deepEqual(lines, [
        ["debug", "Migration applied", { name: "0001_a.sql" }],
        ["debug", "Migration applied", { name: "0002_b.sql" }],
        ["info", "Database is up to date", { migrationsApplied: 2 }],
      ]);
    });

    await step("a new file is applied to what is there", async (url, sql) => {
      await withFolder({ "0001_a.sql": "create table hub.a (x int)" }, async (folder, write) => {
        await run(url, folder);
        await sql`insert into hub.a values (7)`;
        await write("0002_b.sql", "alter table hub.a add y int -- no semicolon, no line end");
        await write("0003.sql", "a name of another form is no migration");
        await write("README.md", "nor is this");
        assert.deepEqual(await run(url, folder), { applied: ["0002_b.sql"], total: 2 });
        assert.deepEqual([...await sql`select x, y from hub.a`], [{ x: 7, y: null }]);
      });
    });

    await step("a file that changed after it was applied is refused", async (url, sql) => {
      const files = { "0001_a.sql": "create table hub.a (x int)" };
      await withFolder(files, async (folder, write) => {
        await run(url, folder);
        await write("0001_a.sql", "create table hub.a (x bigint)");
        await write("0002_b.sql", "create table hub.b (x int)");
        await assert.rejects(run(url, folder), {
          code: "invalid_configuration",
          message: /0001_a\.sql has changed/,
        });
        assert.deepEqual(await applied(sql), ["0001_a.sql"]);
        assert.deepEqual(await tables(sql), ["a"]);
      });
    });

    const older = { "0001_a.sql": "select 1", "0002_b.sql": "create table hub.b (x int)" };
    const log = (said: string[]): Log => ({
      ...SILENT_LOG,
      warn: (_, fields) => said.push(`${fields?.["migrations"]}`),
    });
    await step("a database that newer hubs have added to serves an older one", async (url, sql) => {
      const newer = {
        ...older,
        "0003_c.sql": "create table hub.c (x int)",
        "0004_d_needs_0002.sql": "select 1",
      };
      await withFolder(newer, async (folder) => void await run(url, folder));
      const said: string[] = [];
      await withFolder(older, async (folder) => {
        const migrated = await migrate(url, { folder, log: log(said) });
        assert.deepEqual(migrated, { applied: [], total: 4 });
      });
      assert.deepEqual(said, ["0003_c.sql,0004_d_needs_0002.sql"]);
      assert.equal((await applied(sql)).length, 4);
    });

    for (
      const [what, more, refused] of [
        ["one that needs a newer hub", "0004_d_needs_0003.sql", /0004_d_needs_0003\.sql.*newer/],
        ["one of another line", "0001_b.sql", /0001_b\.sql.*newer version/],
      ] as const
    ) {
      await step(
        `a database with a migration that is not known is refused: ${what}`,
        async (url, sql) => {
          const newer = { ...older, "0003_c.sql": "select 1", [more]: "select 1" };
          await withFolder(newer, async (folder) => void await run(url, folder));
          await withFolder(older, async (folder) => {
            const code = "invalid_configuration";
            await assert.rejects(run(url, folder), { code, message: refused });
          });
          assert.equal((await applied(sql)).length, 4);
        },
      );
    }

    await step("a newer database that lacks one of the files is refused", async (url, sql) => {
      await withFolder(
        { "0001_a.sql": "select 1", "0003_c.sql": "select 1" },
        async (folder) => void await run(url, folder),
      );
      await withFolder(older, async (folder) => {
        await assert.rejects(run(url, folder), { message: /0003_c\.sql.*newer version/ });
      });
      assert.deepEqual(await applied(sql), ["0001_a.sql", "0003_c.sql"]);
    });

    await step("a migration that fails names itself and leaves nothing", async (url, sql) => {
      const files = {
        "0001_a.sql": "create table hub.a (x int)",
        "0002_b.sql": "create table hub.b (x int); insert into hub.b values (1); select 1 / 0;",
        "0003_c.sql": "create table hub.c (x int)",
      };
      await withFolder(files, async (folder, write) => {
        await assert.rejects(run(url, folder), {
          name: "HubError",
          message: /0002_b\.sql.*division by zero/,
        });
        assert.deepEqual(await applied(sql), ["0001_a.sql"]);
        assert.deepEqual(await tables(sql), ["a"]);
        await write("0002_b.sql", "create table hub.b (x int)");
        assert.deepEqual((await run(url, folder)).applied, ["0002_b.sql", "0003_c.sql"]);
      });
    });

    await step("a migration and its record are one transaction", async (url, sql) => {
      // Somebody else's record of the same name makes the hub's own one fail.
      const text = `create table hub.a (x int);
        insert into hub.schema_migrations (name, checksum) values ('0001_a.sql', 'x');`;
      await withFolder({ "0001_a.sql": text }, async (folder) => {
        await assert.rejects(run(url, folder), { message: /0001_a\.sql/ });
        assert.deepEqual(await tables(sql), []);
        assert.deepEqual(await applied(sql), []);
      });
    });

    await step("a backend that dies in a migration leaves nothing", async (url, sql) => {
      const text = "create table hub.a (x int); select pg_terminate_backend(pg_backend_pid());";
      await withFolder({ "0001_a.sql": text }, async (folder) => {
        await assert.rejects(run(url, folder), {
          code: "database_unavailable",
          message: /0001_a\.sql/,
        });
        assert.deepEqual(await tables(sql), []);
        assert.deepEqual(await applied(sql), []);
      });
    });
  } finally {
    await admin.end();
    await server.stop();
  }
});
