import assert from "node:assert/strict";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { MAX_SUBSCRIBER_BYTES, MAX_SUBSCRIBER_EVENTS } from "../../src/core/limits.ts";
import { Broadcast } from "../../src/run/broadcast.ts";

const delta = (seq: number, size = 1): SequencedEvent => ({
  seq,
  event: { type: "text-delta", id: "p0", delta: "x".repeat(size) },
});
const progress: HubEvent = { type: "data", name: "progress", data: 1, transient: true };

Deno.test("an event of any size reaches every reader that has kept up", async () => {
  const broadcast = new Broadcast();
  const waiting = broadcast.subscribe();
  const idle = broadcast.subscribe();
  const next = waiting.next();
  broadcast.send([delta(1, 2 * MAX_SUBSCRIBER_BYTES)], true);
  assert.deepEqual((await next)?.map(({ seq }) => seq), [1]);
  assert.deepEqual((await idle.next())?.map(({ seq }) => seq), [1]);
  // Something small in the same turn makes a reader no slower.
  broadcast.sendTransient(progress);
  broadcast.send([delta(2, 2 * MAX_SUBSCRIBER_BYTES)], true);
  assert.deepEqual((await waiting.next())?.map(({ seq }) => seq), [null, 2]);
  const many = Array.from({ length: 2 * MAX_SUBSCRIBER_EVENTS }, (_, index) => delta(3 + index));
  broadcast.send(many, true);
  assert.equal((await waiting.next())?.length, many.length);
});

Deno.test("a reader whose queue is full is cut off, and nobody else is", async () => {
  const broadcast = new Broadcast();
  const slow = broadcast.subscribe();
  const quick = broadcast.subscribe();
  for (let seq = 1; seq <= MAX_SUBSCRIBER_EVENTS + 1; seq++) {
    broadcast.send([delta(seq)], true);
    assert.equal((await quick.next())?.length, 1);
  }
  await assert.rejects(slow.next(), { code: "overloaded" });
  const heavy = broadcast.subscribe();
  broadcast.send([delta(1000, MAX_SUBSCRIBER_BYTES)], true);
  assert.equal((await quick.next())?.length, 1);
  broadcast.send([delta(1001)], true);
  await assert.rejects(heavy.next(), { code: "overloaded" });
  assert.equal((await quick.next())?.length, 1);
});
