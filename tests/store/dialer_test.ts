import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { openDatabase } from "../../src/store/database.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { SWITCHES, withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

const POOL = 3;

for (
  const [name, onSocket] of [
    ["at once", (socket: Socket) => void socket.end()],
    ["when it is greeted", (socket: Socket) => void socket.once("data", () => socket.end())],
  ] as const
) {
  Deno.test(`an address that hangs up ${name} is asked once a second by each connection`, async () => {
    let accepted = 0;
    let open = 0;
    const server = createServer((socket) => {
      accepted++;
      open++;
      socket.on("close", () => open--);
      socket.on("error", () => {});
      onSocket(socket);
      socket.resume();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const clock = createFakeClock();
    const db = openDatabase({
      url: `postgres://hub:secret@127.0.0.1:${address.port}/hub`,
      poolSize: POOL,
      readPoolSize: 1,
      deadlineMs: 60_000,
      prepare: true,
      skipLocked: true,
      clock,
    });
    const asked = Promise.allSettled(
      Array.from({ length: 2 * POOL }, () => db.within(db.control`select 1`)),
    );
    // Each connection of the pool waits for its turn, beside a deadline for each statement.
    const waiting = () => Promise.resolve(clock.pending() === 3 * POOL && open === 0 || null);
    await eventually(waiting);
    // One that came after the first hang-up has waited with the others.
    assert.ok(accepted <= POOL);
    for (const pauseMs of [50, 100, 200, 400, 800, 1000, 1000]) {
      await eventually(waiting);
      const before = accepted;
      await clock.advance(pauseMs - 1);
      assert.equal(accepted, before);
      await clock.advance(1);
      await eventually(() => Promise.resolve(accepted === before + POOL || null));
    }
    await eventually(waiting);
    await db.close();
    assert.ok((await asked).every(({ status }) => status === "rejected"));
    assert.ok(accepted <= 8 * POOL);
    assert.equal(clock.pending(), 0);
    await new Promise((resolve) => server.close(resolve));
  });
}

Deno.test("a cancelled statement is no hang-up, and connections come without a pause", async () => {
  await withDatabase(async (_db, url) => {
    const clock = createFakeClock();
    const db = openDatabase({
      url,
      poolSize: 2,
      readPoolSize: 1,
      deadlineMs: 500,
      ...SWITCHES,
      clock,
    });
    await db.within(db.control`select 1`);
    const slow = assert.rejects(db.within(db.control`select pg_sleep(60)`), /did not answer/);
    await eventually(async () => {
      const rows = await db
        .read`select 1 from pg_stat_activity where query like 'select pg_sleep%'`;
      return rows[0];
    });
    await clock.advance(500);
    await slow;
    await eventually(async () => {
      const rows = await db.read`
        select 1 from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'`;
      return rows.length === 0 ? true : null;
    });
    await Promise.all([1, 2].map(() => db.within(db.control`select 1`)));
    await db.close();
  });
});
