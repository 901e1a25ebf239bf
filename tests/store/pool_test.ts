import assert from "node:assert/strict";
import type { Clock } from "../../src/core/clock.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { type PostgresServer, withPostgresServer } from "../support/postgres_server.ts";
import { systemClock } from "../support/system_clock.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp_proxy.ts";
import { eventually } from "../support/test_hub.ts";

/** Longer than a busy machine needs to connect and to answer. */
const DEADLINE_MS = 1000;
const POOL = 2;

/** More statements at once than the pool has connections: what became of each. */
function ask(db: Database, count = 3 * POOL): Promise<string[]> {
  return Promise.all(
    Array.from(
      { length: count },
      (_, at) =>
        db.within(db.control<{ at: number }[]>`select ${at}::int as at`).then(
          (rows) => rows[0]?.at === at ? "ok" : "wrong",
          (error) => String(error.code),
        ),
    ),
  );
}

const all = (words: string[], wanted: string) => words.every((word) => word === wanted);

Deno.test("pools survive what the driver does not", async (t) => {
  await withPostgresServer(async (server: PostgresServer) => {
    const proxy: TcpProxy = await startTcpProxy(server.url);
    const options = {
      url: proxy.through(server.url),
      poolSize: POOL,
      readPoolSize: POOL,
      deadlineMs: DEADLINE_MS,
      prepare: true,
      skipLocked: true,
      clock: systemClock,
    };
    const withPools = async (
      body: (db: Database, renewed: string[]) => Promise<void>,
      clock: Clock = systemClock,
    ) => {
      const renewed: string[] = [];
      const db = openDatabase({
        ...options,
        clock,
        onRenewed: (pool, reason) => renewed.push(`${pool}: ${reason}`),
      });
      try {
        await eventually(async () => all(await ask(db), "ok") || null);
        await body(db, renewed);
        assert.ok(all(
          await eventually(async () => {
            const words = await ask(db);
            return words.includes("ok") ? words : null;
          }),
          "ok",
        ));
      } finally {
        await db.close();
      }
    };
    try {
      await t.step("half-open connections are replaced", () =>
        withPools(async (db, renewed) => {
          proxy.forget();
          assert.ok(all(await ask(db), "database_unavailable"));
          await eventually(async () => all(await ask(db), "ok") || null);
          assert.match(renewed[0] ?? "", /^control: /);
        }));

      await t.step(
        "connecting that hangs past a deadline loses no connection",
        () =>
          withPools(async (db) => {
            await proxy.set("stall");
            proxy.cut();
            for (let round = 0; round < 3; round++) {
              assert.ok(all(await ask(db), "database_unavailable"));
            }
            await proxy.set("pass");
            await eventually(async () => all(await ask(db), "ok") || null);
          }),
      );

      await t.step(
        "a proxy that has no Postgres behind it loses no connection",
        () =>
          withPools(async (db) => {
            await proxy.set("slam");
            proxy.cut();
            for (let round = 0; round < 3; round++) {
              assert.ok(all(await ask(db), "database_unavailable"));
            }
            await proxy.set("pass");
            await eventually(async () => all(await ask(db), "ok") || null);
          }),
      );

      await t.step("a cancellation that is refused harms nobody", () =>
        withPools(async (db) => {
          const slow = db.within(db.control`select pg_sleep(60)`);
          await eventually(async () => {
            const rows = await server.admin(
              "select 1 from pg_stat_activity where query like 'select pg_sleep%'",
            );
            return rows[0];
          });
          await proxy.set("refuse");
          await assert.rejects(slow, { code: "database_unavailable" });
          await proxy.set("pass");
        }));

      await t.step(
        "a slow statement is cancelled, and the connection kept",
        () => {
          const clock = createFakeClock();
          return withPools(async (db, renewed) => {
            const asleep = (seconds: number) =>
              server.admin(
                `select 1 from pg_stat_activity
                 where state = 'active' and query like 'select pg_sleep(${seconds})%'`,
              );
            const allAsleep = (seconds: number) =>
              eventually(async () => (await asleep(seconds)).length === POOL || null);
            const slow = [
              ...Array.from({ length: POOL }, () => db.control`select pg_sleep(60)`),
              ...Array.from({ length: POOL }, () => db.control`select pg_sleep(61)`),
            ];
            const ending = Promise.allSettled(slow.map((query) => db.within(query)));
            await allAsleep(60);
            await clock.advance(DEADLINE_MS);
            const ends = await ending;
            assert.deepEqual(ends.map(({ status }) => status), slow.map(() => "rejected"));
            // Those that were sent behind them have their turn now; Postgres may know of it before the driver does.
            await allAsleep(61);
            await eventually(async () => {
              await clock.advance(50);
              return (await asleep(61)).length === 0 || null;
            });
            assert.ok(all(await ask(db), "ok"));
            assert.deepEqual(renewed, []);
          }, clock);
        },
      );

      await t.step(
        "statements that were given up before their turn leave others their own answers",
        () => {
          const clock = createFakeClock();
          return withPools(async (db) => {
            const asleep = async () => {
              const rows = await server.admin(
                "select 1 from pg_stat_activity where state = 'active' and query like 'select pg_sleep%'",
              );
              return rows.length === POOL || null;
            };
            const slow = Array.from(
              { length: POOL },
              () => db.within(db.control`select pg_sleep(60)`),
            );
            await eventually(asleep);
            const behind = [
              ask(db, 4 * POOL),
              ...Array.from(
                { length: 4 * POOL },
                (_, at) => db.within(db.control<{ at: number }[]>`select ${-at}::int as at`),
              ),
            ];
            const ended = Promise.allSettled([...slow, ...behind]);
            await clock.advance(DEADLINE_MS);
            await ended;
            assert.deepEqual(await ask(db, 8 * POOL), Array(8 * POOL).fill("ok"));
          }, clock);
        },
      );

      await t.step(
        "a statement that somebody cancels is worth another try",
        () =>
          withPools(async (db) => {
            const self = db.control`select pg_cancel_backend(pg_backend_pid()), pg_sleep(5)`;
            await assert.rejects(db.within(self), { code: "database_unavailable" });
          }),
      );

      await t.step(
        "connections that stayed read-only are replaced",
        () =>
          withPools(async (db, renewed) => {
            const { admin } = server;
            await admin("create table public.note (text text); grant all on public.note to public");
            await admin("alter database loophub set default_transaction_read_only = on");
            // What connects now stays read-only, also when the database is not any more: as after a failover.
            proxy.cut();
            const write = () =>
              db.within(db.control`insert into public.note values ('x')`).then(
                () => "ok",
                (error) => String(error.cause?.code),
              );
            await eventually(async () => (await write()) === "25006" || null);
            assert.equal(await db.whyUnready(), "Postgres is read-only");
            await admin("alter database loophub reset default_transaction_read_only");
            await eventually(async () => (await write()) === "ok" || null);
            await eventually(async () => (await db.whyUnready()) === null || null);
            assert.ok(renewed.length > 0);
          }),
      );

      await t.step(
        "readiness is asked once for all who ask at a time, and soon known",
        async () => {
          const db = openDatabase({ ...options, deadlineMs: 30_000 });
          try {
            assert.equal(await db.whyUnready(), null);
            await proxy.set("stall");
            const startedMs = performance.now();
            const asked = Array.from({ length: 1000 }, () => db.whyUnready());
            assert.equal(new Set(asked).size, 1);
            assert.equal(await asked[0], "Postgres does not answer");
            // Long before the deadline of statements.
            assert.ok(performance.now() - startedMs < 20_000);
            await proxy.set("pass");
            await eventually(async () => (await db.whyUnready()) === null || null);
          } finally {
            await db.close();
          }
        },
      );

      await t.step("a disk that is full is no readiness", () =>
        withPools(async (db) => {
          await server.admin(`create function public.no_room() returns void language plpgsql as
        $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$`);
          const full = db.within(db.control`select public.no_room()`);
          await assert.rejects(full, { code: "database_unavailable" });
          assert.equal(await db.whyUnready(), "Postgres has no room");
          await eventually(async () => (await db.whyUnready()) === null || null);
        }));
    } finally {
      await proxy.stop();
    }
  });
});
