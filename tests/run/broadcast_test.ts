import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { MAX_SUBSCRIBER_BYTES, MAX_SUBSCRIBER_EVENTS } from "../../src/core/limits.ts";
import { Broadcast, type LiveEvent, type Subscriber } from "../../src/run/broadcast.ts";
import { settle } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const eventOf = (seq: number, delta = `${seq}`): SequencedEvent => ({
  seq,
  event: { type: "text-delta", id: "p0", delta },
});
const upTo = (end: number) => Array.from({ length: end }, (_, index) => index + 1);
const seqsOf = (events: readonly LiveEvent[] | null) => events?.map((live) => live.seq) ?? null;
const NOTE: HubEvent = { type: "data", name: "progress", data: 1, transient: true };

/** Reads to the end or the failure. */
async function readAll(subscriber: Subscriber) {
  const seqs: (number | null)[] = [];
  try {
    for (let events = await subscriber.next(); events !== null; events = await subscriber.next()) {
      seqs.push(...events.map((live) => live.seq));
    }
    return { seqs, end: "whole" };
  } catch (error) {
    return { seqs, end: error instanceof HubError ? error.code : String(error) };
  }
}

Deno.test("every reader gets every event, in order, as one frame that was encoded once", async () => {
  const broadcast = new Broadcast();
  const readers = [broadcast.subscribe(), broadcast.subscribe()];
  broadcast.send([eventOf(1), eventOf(2)], true);
  broadcast.sendTransient(NOTE);
  const [first, second] = await Promise.all(readers.map((reader) => reader.next()));
  assert.deepEqual(seqsOf(first ?? null), [1, 2, null]);
  assert.equal(
    new TextDecoder().decode(first?.[0]?.bytes),
    'id: 1\ndata: {"type":"text-delta","id":"p0","delta":"1"}\n\n',
  );
  assert.equal(first?.[0]?.bytes, second?.[0]?.bytes);
  assert.deepEqual(first?.[2]?.event, NOTE);
});

Deno.test("a reader that waits is woken, and what came before the end is read before it", async () => {
  const broadcast = new Broadcast();
  const reading = readAll(broadcast.subscribe());
  await settle();
  broadcast.send([eventOf(1)], true);
  await settle();
  broadcast.send([eventOf(2)], true);
  broadcast.send([eventOf(3)], true);
  broadcast.end();
  assert.deepEqual(await reading, { seqs: [1, 2, 3], end: "whole" });
});

Deno.test("who comes late gets what is not committed yet as its tail, and then what is sent", async () => {
  const broadcast = new Broadcast();
  broadcast.send([eventOf(1)], true);
  broadcast.send([eventOf(2), eventOf(3), eventOf(4)], false);
  broadcast.sendTransient(NOTE);
  broadcast.committed(2);
  const reader = broadcast.subscribe();
  broadcast.committed(4);
  broadcast.send([eventOf(5)], true);
  assert.deepEqual(seqsOf(reader.tail), [3, 4]);
  assert.deepEqual(seqsOf(await reader.next()), [5]);
  assert.deepEqual(broadcast.subscribe().tail, []);
});

Deno.test("a reader that is too slow loses its own stream only, and the run does not wait", async () => {
  const broadcast = new Broadcast();
  const slow = broadcast.subscribe();
  const quick = readAll(broadcast.subscribe());
  for (const seq of upTo(MAX_SUBSCRIBER_EVENTS + 1)) {
    broadcast.send([eventOf(seq)], true);
    if (seq % 100 === 0) await settle();
  }
  await assert.rejects(slow.next(), { code: "overloaded", status: 503 });
  await assert.rejects(slow.next(), { code: "overloaded" });
  broadcast.end();
  assert.deepEqual(await quick, { seqs: upTo(MAX_SUBSCRIBER_EVENTS + 1), end: "whole" });
});

Deno.test("a reader keeps a queue that is just within the bound", async () => {
  const broadcast = new Broadcast();
  const reader = broadcast.subscribe();
  for (const turn of [0, 1]) {
    for (const seq of upTo(MAX_SUBSCRIBER_EVENTS)) broadcast.send([eventOf(seq)], true);
    assert.equal((await reader.next())?.length, MAX_SUBSCRIBER_EVENTS, `turn ${turn}`);
  }
});

Deno.test("the bound counts bytes too, and what was read is not counted again", async () => {
  const broadcast = new Broadcast();
  const slow = broadcast.subscribe();
  const quick = broadcast.subscribe();
  const piece = "x".repeat(MAX_SUBSCRIBER_BYTES / 4);
  for (const seq of upTo(6)) {
    broadcast.send([eventOf(seq, piece)], true);
    assert.deepEqual(seqsOf(await quick.next()), [seq]);
  }
  await assert.rejects(slow.next(), { code: "overloaded" });
});

Deno.test("who left gets nothing more, and others do", async () => {
  const broadcast = new Broadcast();
  const gone = broadcast.subscribe();
  const reading = readAll(gone);
  const other = broadcast.subscribe();
  await settle();
  gone.close();
  gone.close();
  assert.deepEqual(await reading, { seqs: [], end: "whole" });
  broadcast.send([eventOf(1)], true);
  assert.equal(await gone.next(), null);
  assert.deepEqual(seqsOf(await other.next()), [1]);
});

Deno.test("a run that is lost breaks its readers off, also those that wait", async () => {
  const broadcast = new Broadcast();
  const waiting = readAll(broadcast.subscribe());
  const behind = broadcast.subscribe();
  await settle();
  broadcast.send([eventOf(1)], true);
  await settle();
  broadcast.fail(new HubError("lease_lost", "This replica no longer owns the run"));
  assert.deepEqual(await waiting, { seqs: [1], end: "lease_lost" });
  await assert.rejects(behind.next(), { code: "lease_lost" });
});

Deno.test("who comes when the run is over gets the tail and the end", async () => {
  const broadcast = new Broadcast();
  broadcast.send([eventOf(1)], false);
  broadcast.end();
  const reader = broadcast.subscribe();
  assert.deepEqual(seqsOf(reader.tail), [1]);
  assert.equal(await reader.next(), null);
});

property(
  "tail and events together are the log from the last committed event on, whenever a reader comes",
  fc.tuple(
    fc.array(
      fc.record({
        count: fc.integer({ min: 1, max: 4 }),
        durable: fc.boolean(),
        ack: fc.boolean(),
      }),
      { minLength: 1, maxLength: 30 },
    ),
    fc.nat(29),
  ),
  async ([sends, joinsAt]) => {
    const broadcast = new Broadcast();
    let seq = 0;
    let committed = 0;
    let before = 0;
    let reader: Subscriber | null = null;
    for (const [index, { count, durable, ack }] of sends.entries()) {
      if (index === joinsAt) {
        reader = broadcast.subscribe();
        before = committed;
      }
      const events = Array.from({ length: count }, () => eventOf(++seq));
      // A transition is sent when it and all before it are committed.
      if (durable) broadcast.committed(committed = seq);
      broadcast.send(events, durable);
      if (!durable && ack) broadcast.committed(committed = seq);
    }
    broadcast.end();
    if (reader === null) return;
    const seen = [...reader.tail.map((live) => live.seq), ...(await readAll(reader)).seqs];
    assert.deepEqual(seen, upTo(seq).slice(before));
  },
);
