import assert from "node:assert/strict";
import type { ByteSource } from "../../src/http/byte_source.ts";
import { isSource } from "../../src/http/reply.ts";
import { sseReply } from "../../src/http/sse_response.ts";
import { createFakeClock } from "../support/fake_clock.ts";

/** A source that is fed by the test. */
function createFeed() {
  const waiting: PromiseWithResolvers<Uint8Array | null>[] = [];
  const state = { pulls: 0, cancelled: 0 };
  const source: ByteSource = {
    pull() {
      state.pulls++;
      const next = Promise.withResolvers<Uint8Array | null>();
      waiting.push(next);
      return next.promise;
    },
    cancel: () => void state.cancelled++,
  };
  const feed = (text: string | null) =>
    waiting.shift()?.resolve(text === null ? null : new TextEncoder().encode(text));
  const fail = (error: unknown) => waiting.shift()?.reject(error);
  return { source, feed, fail, state };
}

function start(options: { open?: boolean; pingMs?: number } = {}) {
  const clock = createFakeClock();
  const { source, feed, fail, state } = createFeed();
  const reply = sseReply(source, { clock, ...options });
  assert.ok(isSource(reply.body));
  const body = reply.body;
  const pull = async () => {
    const bytes = await body.pull();
    return bytes === null ? null : new TextDecoder().decode(bytes);
  };
  return { clock, reply, body, pull, feed, fail, state };
}

Deno.test("headers, and the opening comment before the source is asked", async () => {
  const { reply, pull, state } = start();
  assert.deepEqual({ ...reply.headers }, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  });
  assert.equal(await pull(), ": open\n\n");
  assert.equal(state.pulls, 0);
});

Deno.test("silence is broken by a ping each 15 s, and no frame is lost to it", async () => {
  const { clock, pull, feed, state } = start();
  await pull();
  for (let round = 0; round < 3; round++) {
    const pinged = pull();
    await clock.advance(15_000);
    assert.equal(await pinged, ": ping\n\n");
  }
  assert.equal(state.pulls, 1);
  const framed = pull();
  feed("data: 1\n\n");
  assert.equal(await framed, "data: 1\n\n");
  const ended = pull();
  feed(null);
  assert.equal(await ended, null);
  assert.equal(clock.pending(), 0);
});

Deno.test("frames push the next ping away", async () => {
  const { clock, pull, feed } = start();
  await pull();
  for (let n = 0; n < 4; n++) {
    const framed = pull();
    await clock.advance(10_000);
    feed("data: x\n\n");
    assert.equal(await framed, "data: x\n\n");
  }
  const pinged = pull();
  await clock.advance(14_999);
  assert.equal(await Promise.race([pinged, Promise.resolve("silent")]), "silent");
  await clock.advance(1);
  assert.equal(await pinged, ": ping\n\n");
});

Deno.test("a ping never splits a frame", async () => {
  const { clock, pull, feed } = start();
  await pull();
  const half = pull();
  feed("data: ha");
  await half;
  const rest = pull();
  await clock.advance(60_000);
  feed("lf\r\n\r\n");
  assert.equal(await rest, "lf\r\n\r\n");
  const pinged = pull();
  await clock.advance(15_000);
  assert.equal(await pinged, ": ping\n\n");
});

Deno.test("a frame that came while nobody read is not lost, nor is a failure", async () => {
  const { clock, pull, feed, fail } = start();
  await pull();
  const pinged = pull();
  await clock.advance(15_000);
  await pinged;
  feed("data: late\n\n");
  await clock.advance(0);
  assert.equal(await pull(), "data: late\n\n");
  const failed = pull();
  fail(new Error("cut"));
  await assert.rejects(failed, /cut/);
  assert.equal(clock.pending(), 0);
});

Deno.test("cancelling stops the timer and the source, once", async () => {
  const { clock, body, pull, state } = start();
  await pull();
  pull();
  body.cancel(new Error("gone"));
  assert.equal(clock.pending(), 0);
  assert.equal(state.cancelled, 1);
});

Deno.test("without opening and pings it only passes frames on", async () => {
  const { clock, reply, pull, feed } = start({ open: false, pingMs: 0 });
  assert.equal(reply.flush, true);
  const framed = pull();
  await clock.advance(100_000);
  feed("data: 1\n\n");
  assert.equal(await framed, "data: 1\n\n");
});
