import assert from "node:assert/strict";
import type { Database, Sql } from "../../src/store/database.ts";
import { openTestDatabase, withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

const AT_ONCE = 8;
const ROUNDS = 10;

/** Two rows to fight for, and pools whose transactions are serializable. */
async function withRows(
  body: (db: Database) => Promise<void>,
  options: { deadlineMs?: number } = {},
): Promise<void> {
  await withDatabase(async (plain, url) => {
    await plain.control.unsafe(
      `create table hub.fought (id int primary key, n int not null, last json);
      insert into hub.fought values (1, 0), (2, 0); create sequence hub.tries;
      do $$ begin
        execute format('alter database %I set default_transaction_isolation = serializable', current_database());
      end $$`,
    ).simple();
    const db = openTestDatabase(url, { poolSize: AT_ONCE, ...options });
    try {
      await body(db);
    } finally {
      await db.close();
    }
  });
}

Deno.test("what fails to serialize is begun again, with its values and fragments", async () => {
  await withRows(async (db) => {
    const sql = db.control;
    for (let round = 0; round < ROUNDS; round++) {
      // Each failure is another one's success, so none can fail more often than there are others.
      await Promise.all(Array.from({ length: AT_ONCE }, (_, at) =>
        db.within(sql`
          update hub.fought set n = n + ${1} ${sql`, last = ${JSON.stringify({ at })}::text::json`}
          where id = ${1}`)));
    }
    const [row] = await sql<{ n: number; last: { at: number } }[]>`
      select n, last from hub.fought where id = 1`;
    assert.equal(row?.n, ROUNDS * AT_ONCE);
    assert.ok(Number.isInteger(row.last.at));
  });
});

Deno.test("the victim of a deadlock is begun again", async () => {
  await withRows(async (db) => {
    const rows = (sql: Sql, first: number) =>
      sql`update hub.fought set n = n + 1 where id in (
        select id from hub.fought order by id = ${first} desc for update)`;
    const locksAsked = () =>
      eventually(async () => {
        const waiting = await db.read`select 1 from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`;
        return waiting.length > 0 ? true : null;
      });
    let rounds = 0;
    await eventually(async () => {
      rounds++;
      let victim: Promise<unknown> = Promise.resolve();
      const other = db.control.begin("isolation level read committed", async (tx) => {
        await tx`update hub.fought set n = n + 1 where id = 2`;
        victim = db.within(rows(db.read, 1));
        await locksAsked();
        await tx`update hub.fought set n = n + 1 where id = 1`;
      });
      // Who looks for the deadlock last is its victim: the other one, when it asked a second late.
      const code = await other.then(() => null, (error) => error.code);
      await victim;
      if (code !== null) assert.equal(code, "40P01");
      return code === null || null;
    });
    const [sum] = await db.read<{ n: number }[]>`select sum(n)::int as n from hub.fought`;
    assert.equal(sum?.n, 4 + 2 * (rounds - 1));
  });
});

Deno.test("a conflict is met ten times at most, and only a conflict more than once", async () => {
  await withRows(async (db) => {
    await db.control.unsafe(`create function hub.fail(code text) returns int language plpgsql as $$
      begin perform nextval('hub.tries'); raise exception 'no' using errcode = code; end $$`)
      .simple();
    const tries = async (code: string) => {
      await db.control`select setval('hub.tries', 1, false)`;
      await assert.rejects(db.within(db.read`select hub.fail(${code})`), {
        code: "database_unavailable",
      });
      const [row] = await db.control<{ n: number }[]>`
        select last_value::int - (not is_called)::int as n from hub.tries`;
      return row?.n;
    };
    assert.equal(await tries("40001"), 10);
    assert.equal(await tries("40P01"), 10);
    // Whether it was done nobody knows.
    assert.equal(await tries("40003"), 1);
    assert.equal(await tries("55P03"), 1);
  });
});

Deno.test("the deadline holds for all attempts together", async () => {
  await withRows(async (db) => {
    await db.control.unsafe(`create function hub.fail() returns int language plpgsql as $$
      begin perform pg_sleep(0.05); raise exception 'no' using errcode = '40001'; end $$`).simple();
    await assert.rejects(db.within(db.read`select hub.fail()`), {
      code: "database_unavailable",
      message: "Postgres did not answer within 300 ms",
    });
  }, { deadlineMs: 300 });
});
