import assert from "node:assert/strict";
import { lintMigration, lintSchema } from "../support/portable_schema.ts";
import { calls, lintStatement, taggedTemplates } from "../support/portable_statements.ts";
import { MIGRATIONS, withDatabase } from "../support/postgres.ts";

const STORE = new URL("../../src/store/", import.meta.url);

/** A table that breaks no rule, with more columns. */
const table = (more: string) =>
  `create table hub.t (tenant_id uuid not null, id uuid not null, ${more} primary key (tenant_id, id));
  alter table hub.t enable row level security;
  create policy p on hub.t using (tenant_id = current_setting('app.tenant')::uuid);`;

/** What must be found, by the rule that finds it. */
const BAD_SCHEMAS: readonly (readonly [rule: RegExp, ddl: string])[] = [
  [/^a table has a tenant_id.*: t$/, "create table hub.t (id uuid primary key)"],
  [/^a table has a tenant_id.*: t$/, "create table hub.t (tenant_id text not null primary key)"],
  [/^a table has a tenant_id.*: u$/, "create table hub.u (tenant_id uuid default null)"],
  [/^a table has a primary key: t$/, "create table hub.t (tenant_id uuid not null)"],
  [
    /^tenant_id leads every primary.*t_pkey$/,
    table("").replace("(tenant_id, id)", "(id, tenant_id)"),
  ],
  [/^tenant_id leads every primary.*u$/, `${table("n int,")} create unique index u on hub.t (n)`],
  [
    /^tenant_id leads every primary.*u$/,
    `${table("")} create unique index u on hub.t ((id::text))`,
  ],
  [
    /^tenant_id leads every foreign key.*: f$/,
    table(
      `x uuid, constraint f foreign key (x, tenant_id) references hub.clients (client_id, tenant_id),`,
    )
      .replace(/^/, "create unique index on hub.clients (client_id, tenant_id);"),
  ],
  [
    /^a foreign key changes no column.*: f$/,
    table(
      "constraint f foreign key (tenant_id, id) references hub.clients on delete set null,",
    ),
  ],
  [/^no exclusion constraint.*: c$/, table("constraint c unique (tenant_id) deferrable,")],
  [/^no exclusion constraint.*: c$/, table("n int, constraint c exclude (n with =),")],
  [/^no sequence.*: t_n_seq$/, table("n serial,")],
  [/^no sequence.*: t$/, table("n int generated always as identity,")],
  [/^a default is a constant.*: t\.n$/, table("n uuid default gen_random_uuid(),")],
  [/^a default is a constant.*: t\.n$/, table("n timestamptz default clock_timestamp(),")],
  [
    /^no trigger.*: g$/,
    `${table("")} create trigger g before update on hub.t for each row
      execute function suppress_redundant_updates_trigger()`,
  ],
  [/^no trigger and no rule: r$/, `${table("")} create rule r as on update to hub.t do nothing`],
  [/^no type but the built-in.*: t\.n$/, `create type hub.e as enum ('a'); ${table("n hub.e,")}`],
  [/^no type but the built-in.*: t\.n$/, `create domain hub.d as int; ${table("n hub.d,")}`],
  [/^plain tables.*: t$/, table("").replace("create table", "create unlogged table")],
  [/^plain tables.*: m$/, "create materialized view hub.m as select 1 as tenant_id"],
  [/^plain tables.*: hub\.c$/, `${table("")} create table hub.c () inherits (hub.t)`],
  [/^a function.*: f$/, "create function hub.f() returns int language sql as 'select 1'"],
  [
    /^a function.*: f$/,
    "create function hub.f() returns int language plpgsql immutable as 'begin return 1; end'",
  ],
  [/^a table has row-level.*: t$/, table("").replace(/alter table.*;/, "")],
  [/^a table has row-level.*: t$/, table("").replace(/create policy.*;/, "")],
  [/^tenant_id leads every view: v$/, "create view hub.v as select run_id from hub.runs"],
];

Deno.test("the schema keeps to what distributed databases can hold", async (t) => {
  await withDatabase(async (db) => {
    assert.deepEqual(await lintSchema(db.read), []);
    const [counts] = await db
      .read`select count(*)::int as tables from pg_tables where schemaname = 'hub'`;
    assert.ok(counts?.["tables"] > 15);

    await t.step("what does not keep to it is found", async () => {
      class RolledBack extends Error {}
      for (const [rule, ddl] of BAD_SCHEMAS) {
        await assert.rejects(
          db.control.begin(async (tx) => {
            await tx.unsafe(ddl).simple();
            const found = await lintSchema(tx);
            assert.ok(
              found.some((line) => rule.test(line)),
              `${ddl}\n${rule}\n${found.join("\n")}`,
            );
            throw new RolledBack();
          }),
          RolledBack,
        );
      }
      await assert.rejects(
        db.control.begin(async (tx) => {
          await tx.unsafe(table("n int not null default 0, at timestamptz default now(),"))
            .simple();
          assert.deepEqual(await lintSchema(tx), []);
          throw new RolledBack();
        }),
        RolledBack,
      );
    });
  });
});

const BAD_MIGRATIONS = [
  "drop table hub.t",
  "alter table hub.t drop column n",
  "alter table hub.t rename to u",
  "alter table hub.t rename column n to m",
  "alter table hub.t alter column n type bigint",
  "alter table hub.t alter column n set data type bigint",
  "alter table hub.t alter n set not null",
  "alter table hub.t add column n int not null",
  "alter table hub.t add n int not null",
  "alter table hub.t add constraint c check (n > 0)",
  "alter table hub.t add unique (tenant_id, n)",
  "create index concurrently i on hub.t (n)",
  "create table hub.t (n bigserial)",
  "create table hub.t (n int default nextval('s'))",
  "create table hub.t (n int generated by default as identity)",
  "truncate hub.t",
  "create extension pgcrypto",
  "create or replace trigger g before update on hub.t",
  "create type hub.e as enum ('a')",
  "create sequence hub.s",
  "create materialized view hub.m as select 1",
  "create unlogged table hub.t (n int)",
  "create temp table t (n int)",
  "lock table hub.t",
  "select pg_advisory_xact_lock(1)",
  "select 1;\n  commit;",
  "set lock_timeout = 0",
];

Deno.test("migrations only add: an older hub goes on beside a newer one", async () => {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(MIGRATIONS)) names.push(name);
  assert.deepEqual(names.filter((name) => !/^\d{4}_[a-z0-9_]+\.sql$/.test(name)), []);
  const numbers = names.sort().map((name) => Number(name.slice(0, 4)));
  // A number that was left out stays unused: an older hub refuses a new file before its own last one.
  assert.deepEqual(numbers, [...new Set(numbers)], "each number once");
  for (const name of names) {
    const text = await Deno.readTextFile(new URL(name, MIGRATIONS));
    assert.deepEqual(lintMigration(text), [], name);
  }
  for (const text of BAD_MIGRATIONS) assert.equal(lintMigration(text).length, 1, text);
  const good = "-- drop table hub.t\nalter table hub.t add column n int not null default 0;";
  assert.deepEqual(lintMigration(good), []);
});

/** Statements that may do what others may not. */
const EXCEPTIONS = [
  // Claiming, pruning and sweeping look at all tenants' rows; a key is looked up before its tenant is known.
  "claim_runs.ts goes across tenants",
  "keys.ts goes across tenants",
  "keys.ts goes across tenants",
  // The table of migrations is nobody's; nothing else is made at run time.
  "migrate.ts goes across tenants",
  "migrate.ts goes across tenants",
  "migrate.ts is DDL",
  "migrate.ts is DDL",
  "notify.ts calls pg_notify",
  "prune_events.ts goes across tenants",
  "settle_budgets.ts goes across tenants",
  "settle_budgets.ts goes across tenants",
  "settle_budgets.ts goes across tenants",
];

Deno.test("statements keep to their tenant, one change a table, no volatile function and no session", async () => {
  await withDatabase(async (db) => {
    const volatile = new Set(
      (await db.read<{ name: string }[]>`
        select distinct proname as name from pg_proc where provolatile = 'v'
          and pronamespace = 'pg_catalog'::regnamespace`).map(({ name }) => name),
    );
    for (
      const name of ["random", "clock_timestamp", "gen_random_uuid", "nextval", "pg_advisory_lock"]
    ) {
      assert.ok(volatile.has(name), name);
    }
    const found: string[] = [];
    let statements = 0;
    for await (const { name } of Deno.readDir(STORE)) {
      const source = await Deno.readTextFile(new URL(name, STORE));
      for (const text of taggedTemplates(source)) {
        statements++;
        found.push(...lintStatement(text, volatile).map((what) => `${name} ${what}`));
      }
      const isLocking = /skip locked/.test(source);
      assert.ok(!isLocking || source.includes("db.skipLocked ?"), `${name} has no way around`);
    }
    assert.ok(statements > 50, `${statements} found`);
    assert.deepEqual(found.sort(), EXCEPTIONS);
  });
});

Deno.test("statements that do not keep to the rules are found", () => {
  const volatile = new Set(["random"]);
  const bad: readonly (readonly [string, string])[] = [
    [
      "with a as (update hub.t set n = 1 where tenant_id = $ returning 1) delete from hub.t where tenant_id = $",
      "changes hub.t twice",
    ],
    ["update hub.t set n = random() where tenant_id = $", "calls random"],
    ["create index i on hub.t (tenant_id)", "is DDL"],
    ["  listen loophub", "needs a session"],
    ["set statement_timeout = 1", "needs a session"],
    ["select n from hub.t where id = $", "goes across tenants"],
    [
      "select 1 from hub.t join hub.u v on v.id = t.id where t.tenant_id = $",
      "joins u across tenants",
    ],
    [
      "select 1 from hub.t join hub.u on t.id = u.id left join hub.v v on v.tenant_id = u.tenant_id where tenant_id = $",
      "joins u across tenants",
    ],
  ];
  for (const [text, what] of bad) {
    assert.ok(lintStatement(text, volatile).includes(what), text);
  }
  assert.deepEqual(
    lintStatement("insert into hub.t (tenant_id, n) values ($, greatest(1, 2))", volatile),
    [],
  );
  assert.deepEqual(calls("select a(b( c))"), ["a", "b"]);
  const source =
    'const a = sql<Row[]>`one ${f({ b: "`" })} ${sql`two ${1}`} three`; // no`t\nx = `plain ${sql`four`}`; y = db.read`five`';
  assert.deepEqual(taggedTemplates(source), ["two $", "one $ $ three", "four", "five"]);
});
