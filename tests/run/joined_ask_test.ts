import assert from "node:assert/strict";
import type { AbortLike } from "../../src/core/abort.ts";
import { toHubError } from "../../src/core/error.ts";
import { JoinedAsk } from "../../src/run/joined_ask.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

function setup() {
  const clock = createFakeClock();
  const result = Promise.withResolvers<string>();
  const seen = { over: 0, signal: null as AbortLike | null };
  const joined = new JoinedAsk((signal) => {
    seen.signal = signal;
    return result.promise;
  }, () => seen.over++);
  const patience = { clock, limitMs: 1000 };
  const codeOf = (waiting: Promise<unknown>) =>
    waiting.then((value) => value, (error) => toHubError(error).code);
  return { clock, result, seen, joined, patience, codeOf };
}

Deno.test("all who wait get what came, and their timers rest", async () => {
  const { clock, result, seen, joined, patience } = setup();
  const waiting = [1, 2, 3].map(() => joined.wait(new AbortController().signal, patience));
  await settle();
  assert.equal(clock.pending(), 3);
  result.resolve("here");
  assert.deepEqual(await Promise.all(waiting), ["here", "here", "here"]);
  assert.equal(clock.pending(), 0);
  assert.ok(seen.over > 0);
});

Deno.test("patience ends for each alone; the call is stopped with the last who leaves", async () => {
  const { clock, seen, joined, patience, codeOf } = setup();
  const left = new AbortController();
  const leaving = codeOf(joined.wait(left.signal));
  const tired = joined.wait(new AbortController().signal, patience);
  await clock.advance(1000);
  assert.equal(await tired, null);
  assert.deepEqual([seen.signal?.aborted, seen.over], [false, 0]);
  left.abort();
  assert.equal(await leaving, "client_closed");
  assert.deepEqual([seen.signal?.aborted, seen.over], [true, 1]);
  assert.equal(toHubError(seen.signal?.reason).code, "client_closed");
  assert.equal(clock.pending(), 0);
});

Deno.test("who has left before it waits does not stop the others; a failure is everybody's", async () => {
  const { result, seen, joined, codeOf } = setup();
  const waiting = codeOf(joined.wait(new AbortController().signal));
  assert.equal(await codeOf(joined.wait(AbortSignal.abort())), "client_closed");
  assert.equal(seen.signal?.aborted, false);
  result.reject(new Error("no"));
  assert.equal(await waiting, "internal_error");
});
