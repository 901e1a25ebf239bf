import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { guardAgainstDriverCrash, isDriverCrash } from "../../src/store/driver_guard.ts";
import { withDatabase } from "../support/postgres.ts";

const ROUNDS = 200;

Deno.test("200 backends terminated in statements and transactions leave the process alive", async () => {
  const release = guardAgainstDriverCrash(SILENT_LOG);
  try {
    await withDatabase(async (db) => {
      for (let round = 0; round < ROUNDS; round++) {
        const die = db.control`select pg_terminate_backend(pg_backend_pid()), pg_sleep(5)`;
        await assert.rejects(db.within(die), { code: "database_unavailable" });
        if (round % 20 !== 0) continue;
        // In a transaction the driver may never settle: what counts is that the process and the pool live on.
        const begun = db.read.begin(async (tx) => {
          await tx`select pg_terminate_backend(pg_backend_pid())`.catch(() => {});
          await tx`select 2`;
        });
        await assert.rejects(db.within(begun as Promise<unknown>));
      }
      // A connection may still learn of its end with the next statement; the pool then opens another.
      const ask = () => db.within(db.control<{ one: number }[]>`select 1 as one`).catch(() => null);
      let rows = await ask();
      for (let again = 0; rows === null && again < 20; again++) rows = await ask();
      assert.equal(rows?.[0]?.one, 1);
    }, { deadlineMs: 1000 });
  } finally {
    release();
  }
});

Deno.test("the guard knows only the driver's own TypeError", () => {
  assert.equal(isDriverCrash(new TypeError("x")), false);
  assert.equal(isDriverCrash(new Error("connection.js")), false);
  const crash = new TypeError("Cannot read properties of null (reading 'write')");
  crash.stack = "TypeError\n at file:///npm/postgres/3.4.9/src/connection.js:250:1";
  assert.equal(isDriverCrash(crash), true);
});
