import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError, toHubError } from "../../src/core/error.ts";
import { ConcurrencyGate } from "../../src/router/concurrency_gate.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const WAIT_MS = 1000;

interface Guest {
  name: string;
  abort: AbortController;
  /** Null while it waits. */
  leave: (() => void) | null;
  refusal: unknown;
}

/** A gate for `max`, and guests that enter it. `inside` names those who came in, in order. */
function setup(max: number) {
  const clock = createFakeClock();
  const gate = new ConcurrencyGate(max, clock);
  const entered: string[] = [];
  const enter = (name: string, waitMs = WAIT_MS): Guest => {
    const guest: Guest = { name, abort: new AbortController(), leave: null, refusal: null };
    gate.enter({ signal: guest.abort.signal, waitMs }).then(
      (leave) => {
        entered.push(name);
        guest.leave = leave;
      },
      (error) => guest.refusal = error,
    );
    return guest;
  };
  return { clock, entered, enter };
}

const out = (guest: Guest) => guest.leave?.();

Deno.test("as many as allowed are inside at once; the others come in as places are left, in order", async () => {
  const { clock, entered, enter } = setup(2);
  const guests = ["a", "b", "c", "d", "e"].map((name) => enter(name));
  await settle();
  assert.deepEqual(entered, ["a", "b"]);
  for (const [index, guest] of guests.entries()) {
    out(guest);
    await settle();
    assert.equal(entered.length, Math.min(5, 3 + index));
  }
  assert.deepEqual(entered, ["a", "b", "c", "d", "e"]);
  assert.equal(clock.pending(), 0);
});

Deno.test("a place left twice is one place", async () => {
  const { entered, enter } = setup(1);
  const first = enter("a");
  enter("b");
  enter("c");
  await settle();
  out(first);
  out(first);
  await settle();
  assert.deepEqual(entered, ["a", "b"]);
});

Deno.test("a newcomer does not pass those who wait", async () => {
  const { entered, enter } = setup(1);
  const first = enter("a");
  enter("b");
  await settle();
  out(first);
  enter("c");
  await settle();
  assert.deepEqual(entered, ["a", "b"]);
});

Deno.test("who is stopped while waiting gets the signal's reason and holds up nobody", async () => {
  const { clock, entered, enter } = setup(1);
  const first = enter("a");
  const second = enter("b");
  enter("c");
  await settle();
  const reason = new HubError("client_closed", "The client left");
  second.abort.abort(reason);
  await settle();
  assert.equal(second.refusal, reason);
  out(first);
  await settle();
  assert.deepEqual(entered, ["a", "c"]);
  assert.equal(clock.pending(), 0);
});

Deno.test("who came with a signal that was aborted before does not wait at all", async () => {
  const clock = createFakeClock();
  const gate = new ConcurrencyGate(1, clock);
  const leave = await gate.enter({ signal: new AbortController().signal, waitMs: WAIT_MS });
  const reason = new Error("gone");
  const late = gate.enter({ signal: AbortSignal.abort(reason), waitMs: WAIT_MS });
  await assert.rejects(late, reason);
  assert.equal(clock.pending(), 0);
  leave();
  (await gate.enter({ signal: new AbortController().signal, waitMs: WAIT_MS }))();
});

Deno.test("nobody waits longer than the time given, and the place goes to the next in line", async () => {
  const { clock, entered, enter } = setup(1);
  const first = enter("a");
  const hasty = enter("b", 10);
  enter("c", 1000);
  await clock.advance(9);
  assert.ok(hasty.refusal === null);
  await clock.advance(1);
  const refusal = toHubError(hasty.refusal);
  assert.equal(refusal.code, "overloaded");
  assert.equal(refusal.status, 503);
  assert.equal(refusal.retryAfterMs, 1000);
  out(first);
  await settle();
  assert.deepEqual(entered, ["a", "c"]);
});

Deno.test("a signal that aborts inside changes nothing: the place is given back by who has it", async () => {
  const { entered, enter } = setup(1);
  const first = enter("a");
  const second = enter("b");
  await settle();
  out(first);
  await settle();
  first.abort.abort();
  second.abort.abort();
  enter("c");
  await settle();
  assert.deepEqual(entered, ["a", "b"]);
  out(second);
  await settle();
  assert.deepEqual(entered, ["a", "b", "c"]);
});

const move = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ kind: "enter" as const, at: 0 }) },
  fc.record({ kind: fc.constantFrom("leave" as const, "abort" as const), at: fc.nat(20) }),
  fc.record({ kind: fc.constant("wait" as const), at: fc.nat(700) }),
);

property(
  "never more inside than allowed, none waits beside a free place, and first come is first in",
  fc.tuple(fc.integer({ min: 1, max: 3 }), fc.array(move, { maxLength: 40 })),
  async ([max, moves]) => {
    const { clock, entered, enter } = setup(max);
    const guests: Guest[] = [];
    const gone = new Set<Guest>();
    for (const { kind, at } of moves) {
      const guest = guests[at % Math.max(1, guests.length)];
      if (kind === "enter") guests.push(enter(String(guests.length).padStart(3, "0")));
      else if (kind === "wait") await clock.advance(at);
      else if (kind === "abort") guest?.abort.abort(new Error("left"));
      else if (guest?.leave) {
        guest.leave();
        gone.add(guest);
      }
      await settle();
      const inside = guests.filter((one) => one.leave !== null && !gone.has(one)).length;
      const waiting = guests.filter((one) => one.leave === null && one.refusal === null).length;
      assert.ok(inside <= max);
      assert.ok(waiting === 0 || inside === max);
      assert.equal(clock.pending(), waiting);
    }
    assert.deepEqual(entered, entered.toSorted());
  },
  { runs: 50 },
);
