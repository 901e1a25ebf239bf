import assert from "node:assert/strict";
import { Connection } from "../../../src/providers/http1/connection.ts";
import { IdlePool } from "../../../src/providers/http1/idle_pool.ts";
import { createFakeClock } from "../../support/fake_clock.ts";

function open(pool: () => IdlePool, key: string): Connection {
  return new Connection(
    { read: () => new Promise(() => {}), write: () => Promise.resolve(1), close() {} },
    { key, owner: { closed() {}, lost: (connection) => pool().remove(connection) } },
  );
}

Deno.test("the youngest is taken first, per origin", () => {
  const pool: IdlePool = new IdlePool({ clock: createFakeClock(), maxIdlePerOrigin: 5 });
  const [a, b, other] = ["o", "o", "p"].map((key) => open(() => pool, key));
  for (const connection of [a, b, other]) if (connection !== undefined) pool.put(connection, 1000);
  assert.equal(pool.size, 3);
  assert.equal(pool.take("o", 0), b);
  assert.equal(pool.take("o", 0), a);
  assert.equal(pool.take("o", 0), null);
  assert.equal(pool.take("p", 0), other);
  assert.equal(pool.take("q", 0), null);
  assert.equal(pool.size, 0);
});

Deno.test("one that lay too long is not handed out, even when the timer is late", () => {
  const pool: IdlePool = new IdlePool({ clock: createFakeClock(), maxIdlePerOrigin: 5 });
  const old = open(() => pool, "o");
  pool.put(old, 1000);
  assert.equal(pool.take("o", 1000), null);
  assert.equal(old.closed, true);
  assert.equal(pool.size, 0);
});

Deno.test("one timer closes each in its time and rests when nothing waits", async () => {
  const clock = createFakeClock();
  const pool: IdlePool = new IdlePool({ clock, maxIdlePerOrigin: 5 });
  const first = open(() => pool, "o");
  const second = open(() => pool, "p");
  pool.put(first, 1000);
  await clock.advance(600);
  pool.put(second, 1000);
  assert.equal(clock.pending(), 1);
  await clock.advance(400);
  assert.deepEqual([first.closed, second.closed], [true, false]);
  await clock.advance(600);
  assert.equal(second.closed, true);
  assert.deepEqual([clock.pending(), pool.size], [0, 0]);
});

Deno.test("clear closes everything and lets the timer rest", () => {
  const clock = createFakeClock();
  const pool: IdlePool = new IdlePool({ clock, maxIdlePerOrigin: 1 });
  const [kept, surplus, hinted] = ["o", "o", "p"].map((key) => open(() => pool, key));
  assert.ok(kept !== undefined && surplus !== undefined && hinted !== undefined);
  pool.put(kept, 1000);
  pool.put(surplus, 1000);
  pool.put(hinted, 0);
  assert.deepEqual([kept, surplus, hinted].map((each) => each.closed), [false, true, true]);
  pool.clear();
  assert.equal(kept.closed, true);
  assert.deepEqual([clock.pending(), pool.size], [0, 0]);
});
