import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { untilAnswered } from "../../src/run/until_answered.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const away = () => new HubError("database_unavailable", "Postgres is away");

Deno.test("what has to be known is asked for until Postgres is back, a second apart at most", async () => {
  const clock = createFakeClock();
  const { signal } = new AbortController();
  const atMs: number[] = [];
  const answer = untilAnswered(() => {
    atMs.push(clock.monotonic());
    return atMs.length < 8 ? Promise.reject(away()) : Promise.resolve("back");
  }, { clock, signal });
  while (atMs.length < 8) await clock.advance(50);
  assert.equal(await answer, "back");
  const [first = 0] = atMs;
  assert.deepEqual(atMs.map((ms) => ms - first), [0, 50, 150, 350, 750, 1550, 2550, 3550]);
});

Deno.test("a lost lease ends the waiting, and other errors are not waited for", async () => {
  const clock = createFakeClock();
  const lease = new AbortController();
  const waiting = untilAnswered(() => Promise.reject(away()), {
    clock,
    signal: lease.signal,
  });
  await clock.advance(10);
  lease.abort(new Error("The lease is lost"));
  await assert.rejects(waiting, /The lease is lost/);
  const wrong = new HubError("invalid_request", "no such column");
  const { signal } = new AbortController();
  await assert.rejects(untilAnswered(() => Promise.reject(wrong), { clock, signal }), wrong);
});
