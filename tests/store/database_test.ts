import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { type Database, toDatabaseError } from "../../src/store/database.ts";
import { createSession, type NewSession, updateSession } from "../../src/store/sessions.ts";
import { DEFAULT_TENANT_ID } from "../../src/store/tenant.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { openTestDatabase, testIds, withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

const tenantId = DEFAULT_TENANT_ID;

function newSession(db: Database, facts: Partial<NewSession>) {
  const keyId = testIds.next("key");
  const sessionId = testIds.next("ses");
  return createSession(db, { tenantId, sessionId, agent: "default", keyId, ...facts });
}

Deno.test("a database's errors and deadlines", async (t) => {
  await withDatabase(async (db, url) => {
    await t.step("text that Postgres cannot hold is the caller's mistake", async () => {
      const refused = { code: "invalid_request", message: /NUL character or half of a surrogate/ };
      await assert.rejects(newSession(db, { title: "a\0b" }), refused);
      await assert.rejects(newSession(db, { externalId: "a\0b" }), refused);
      await assert.rejects(newSession(db, { metadata: { a: ["a\0b"] } }), refused);
      await assert.rejects(newSession(db, { metadata: { "a\0b": 1 } }), refused);
      await assert.rejects(newSession(db, { metadata: { a: "\ud800" } }), refused);
      const { id } = await newSession(db, { metadata: { a: "😀 \\u0000" } });
      const change = { tenantId, sessionId: id, metadata: { a: "\udc00x" } };
      await assert.rejects(updateSession(db, change), refused);
    });

    await t.step("other mistakes in a statement are the hub's own", async () => {
      for (const text of ["select 1 / 0", "select 'x'::uuid", "select no_such_column"]) {
        await assert.rejects(db.within(db.read.unsafe(text)), { code: "internal_error" }, text);
      }
    });

    await t.step(
      "a connection that is not had is never the hub's mistake, whatever is said",
      async () => {
        const wrong = (change: (url: URL) => void) => {
          const other = new URL(url);
          change(other);
          return openTestDatabase(other.href);
        };
        const away = [
          wrong((other) => other.password = "wrong"),
          wrong((other) => other.username = "no_such_role"),
          wrong((other) => other.pathname = "/no_such_database"),
          wrong((other) => other.port = "1"),
        ];
        for (const refused of away) {
          const error = await refused.within(refused.read`select 1`).then(
            () => assert.fail("it was answered"),
            (error: unknown) => error,
          );
          assert.ok(error instanceof HubError);
          assert.deepEqual([error.code, error.retryAfterMs], ["database_unavailable", 1000]);
          await refused.close();
        }
        const failures = [
          Object.assign(new Error("x"), { code: "SASL_SIGNATURE_MISMATCH" }),
          Object.assign(new Error("x"), { syscall: "connect" }),
          new Deno.errors.TimedOut("x"),
        ];
        for (const error of failures) {
          assert.equal(toDatabaseError(error).code, "database_unavailable");
        }
        assert.equal(toDatabaseError(new TypeError("x")).code, "internal_error");
      },
    );

    await t.step("a statement that is too slow is given up and cancelled", async () => {
      let errors = 0;
      const clock = createFakeClock();
      const hasty = openTestDatabase(url, {
        poolSize: 1,
        readPoolSize: 1,
        deadlineMs: 10_000,
        onError: () => errors++,
        clock,
      });
      try {
        const slow = assert.rejects(hasty.within(hasty.read`select pg_sleep(60)`), {
          code: "database_unavailable",
          message: "Postgres did not answer within 10000 ms",
        });
        await eventually(async () => {
          const rows = await db.read`select 1 from pg_stat_activity
            where datname = current_database() and query like 'select pg_sleep%'`;
          return rows[0];
        });
        await clock.advance(10_000);
        await slow;
        assert.equal(errors, 1);
        await assert.rejects(hasty.within(hasty.read`select ${"a\0b"}::text`));
        assert.equal(errors, 1, "the caller's mistakes are no errors of the database");
        // The only connection is free again as soon as Postgres has heard of it.
        const rows = await db.within(hasty.read`select 1 as one`);
        assert.deepEqual([...rows], [{ one: 1 }]);
        assert.equal(await db.whyUnready(), null);
      } finally {
        await hasty.close();
      }
    });

    await t.step("both pools work apart: a busy one does not hold up the other", async () => {
      const busy = Array.from({ length: 4 }, () => db.read`select pg_sleep(60)`.execute());
      assert.deepEqual([...await db.within(db.control`select 1 as one`)], [{ one: 1 }]);
      for (const query of busy) query.cancel();
      const ends = await Promise.allSettled(busy);
      assert.deepEqual(ends.map((end) => end.status), Array(4).fill("rejected"));
    });
  });

  await t.step("no Postgres there: unavailable, and worth another try", async () => {
    const free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = free.addr as Deno.NetAddr;
    free.close();
    const db = openTestDatabase(`postgres://u:p@127.0.0.1:${port}/d`, {
      poolSize: 1,
      readPoolSize: 1,
      deadlineMs: 5000,
    });
    try {
      await assert.rejects(db.within(db.control`select 1`), {
        code: "database_unavailable",
        retryAfterMs: 1000,
      });
      assert.equal(await db.whyUnready(), "Postgres does not answer");
    } finally {
      await db.close();
    }
  });

  await t.step("an error of the hub passes as it is", () => {
    const error = new HubError("lease_lost", "x");
    assert.equal(toDatabaseError(error), error);
    assert.equal(toDatabaseError("nonsense").code, "internal_error");
  });
});
