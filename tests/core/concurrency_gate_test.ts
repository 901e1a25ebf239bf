import assert from "node:assert/strict";
import fc from "fast-check";
import type { GateOptions } from "../../src/core/concurrency_gate.ts";
import { Deadlines } from "../../src/core/deadlines.ts";
import { HubError, toHubError } from "../../src/core/error.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createTally, createTestGate } from "../support/gates.ts";
import { property } from "../support/property.ts";

const TIMEOUT_MS = 1000;

interface Guest {
  name: string;
  abort: AbortController;
  state: "waiting" | "inside" | "gone";
  refusal: unknown;
}

/** A gate, and guests that enter it. `entered` names those who came in, in order. */
function setup(options: Partial<GateOptions> & { max: number }) {
  const clock = createFakeClock();
  const deadlines = new Deadlines(clock);
  const tally = createTally();
  const gate = createTestGate(clock, { queueTimeoutMs: TIMEOUT_MS, deadlines, tally, ...options });
  const entered: string[] = [];
  const enter = (name: string): Guest => {
    const guest: Guest = { name, abort: new AbortController(), state: "waiting", refusal: null };
    const enter = async () => gate.tryEnter() || await gate.wait(guest.abort.signal);
    enter().then(
      () => {
        entered.push(name);
        guest.state = "inside";
      },
      (error) => {
        guest.state = "gone";
        guest.refusal = error;
      },
    );
    return guest;
  };
  const out = (guest: Guest) => {
    assert.equal(guest.state, "inside");
    guest.state = "gone";
    gate.leave();
  };
  return { clock, deadlines, tally, gate, entered, enter, out };
}

Deno.test("as many as allowed are inside at once; the others come in as places are left, in order", async () => {
  const { deadlines, tally, entered, enter, out } = setup({ max: 2 });
  const guests = ["a", "b", "c", "d", "e"].map((name) => enter(name));
  await settle();
  assert.deepEqual(entered, ["a", "b"]);
  assert.deepEqual([tally.inside, tally.waiting], [2, 3]);
  for (const [index, guest] of guests.entries()) {
    out(guest);
    await settle();
    assert.equal(entered.length, Math.min(5, 3 + index));
  }
  assert.deepEqual(entered, ["a", "b", "c", "d", "e"]);
  assert.deepEqual([tally.inside, tally.waiting], [0, 0]);
  assert.equal(deadlines.size, 0);
});

Deno.test("a newcomer does not pass those who wait", async () => {
  const { gate, entered, enter, out } = setup({ max: 1 });
  const first = enter("a");
  enter("b");
  await settle();
  out(first);
  assert.equal(gate.tryEnter(), false);
  enter("c");
  await settle();
  assert.deepEqual(entered, ["a", "b"]);
});

Deno.test("who is stopped while waiting gets the signal's reason and holds up nobody", async () => {
  const { deadlines, tally, entered, enter, out } = setup({ max: 1 });
  const first = enter("a");
  const second = enter("b");
  enter("c");
  await settle();
  const reason = new HubError("client_closed", "The client left");
  second.abort.abort(reason);
  await settle();
  assert.equal(second.refusal, reason);
  assert.deepEqual([tally.left, tally.waiting], [1, 1]);
  out(first);
  await settle();
  assert.deepEqual(entered, ["a", "c"]);
  assert.equal(deadlines.size, 0);
});

Deno.test("who came with a signal that was aborted before does not wait at all", () => {
  const { gate, tally, deadlines } = setup({ max: 1 });
  assert.ok(gate.tryEnter());
  const reason = new Error("gone");
  assert.throws(() => gate.wait(AbortSignal.abort(reason)), reason);
  assert.deepEqual([tally.waiting, deadlines.size], [0, 0]);
});

Deno.test("a refusal costs no stack, and leaves those of others as they are", () => {
  const { gate } = setup({ max: 1, maxQueued: 0 });
  assert.ok(gate.tryEnter());
  const limit = Error.stackTraceLimit;
  assert.throws(() => gate.wait(new AbortController().signal), (error) => {
    assert.ok(error instanceof HubError && !error.stack?.includes("\n    at "));
    return true;
  });
  assert.equal(Error.stackTraceLimit, limit);
});

Deno.test("nobody waits longer than the time given, and the place goes to the next in line", async () => {
  const { clock, deadlines, tally, entered, enter, out } = setup({ max: 1 });
  const first = enter("a");
  const late = enter("b");
  await clock.advance(400);
  enter("c");
  await clock.advance(599);
  assert.equal(late.state, "waiting");
  await clock.advance(1);
  const refusal = toHubError(late.refusal);
  assert.equal(refusal.code, "overloaded");
  assert.equal(refusal.status, 503);
  assert.match(refusal.message, /The gate has 1 requests under way.*1000 ms/);
  assert.deepEqual(tally.refusals, ["late"]);
  out(first);
  await settle();
  assert.deepEqual(entered, ["a", "c"]);
  assert.equal(deadlines.size, 0);
});

Deno.test("past the queue the refusal comes at once, as the error that the gate was made with", async () => {
  const { tally, enter } = setup({ max: 1, maxQueued: 1, code: "rate_limit_exceeded" });
  enter("a");
  enter("b");
  const refused = enter("c");
  await settle();
  const { code, status, kind } = toHubError(refused.refusal);
  assert.deepEqual([code, status, kind.type], ["rate_limit_exceeded", 429, "rate_limit_error"]);
  assert.deepEqual(tally.refusals, ["full"]);
});

Deno.test("a gate without a queue refuses whoever finds no place", async () => {
  const { enter, out, entered } = setup({ max: 1, maxQueued: 0 });
  const first = enter("a");
  const refused = enter("b");
  await settle();
  assert.equal(refused.state, "gone");
  out(first);
  enter("c");
  await settle();
  assert.deepEqual(entered, ["a", "c"]);
});

/** What a newcomer is told when it finds the gate full after those inside were served at this pace. */
async function retryAfter(
  { max, maxQueued, serviceMs, rounds, idleMs = 0 }: {
    max: number;
    maxQueued: number;
    serviceMs: number;
    rounds: number;
    idleMs?: number;
  },
): Promise<number | undefined> {
  const { clock, gate, enter } = setup({ max, maxQueued, queueTimeoutMs: 1e6 });
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < max; place++) assert.ok(gate.tryEnter());
    await clock.advance(serviceMs);
    for (let place = 0; place < max; place++) gate.leave();
    await clock.advance(idleMs);
  }
  for (let place = 0; place < max + maxQueued; place++) enter(String(place));
  const refused = enter("late");
  await settle();
  return toHubError(refused.refusal).retryAfterMs;
}

Deno.test("a refusal says when those who wait will be inside, by the pace of the gate while it was full", async () => {
  // A place every 500 ms: four wait, so that the fifth is inside after 2.5 s.
  const steady = { max: 1, maxQueued: 4, serviceMs: 500, rounds: 6 };
  assert.equal(await retryAfter(steady), 2500);
  assert.equal(await retryAfter({ ...steady, idleMs: 9000 }), 2500);
  assert.equal(await retryAfter({ ...steady, serviceMs: 1 }), 1000);
  assert.equal(await retryAfter({ ...steady, serviceMs: 100_000 }), 60_000);
  assert.equal(await retryAfter({ ...steady, rounds: 0 }), 1000);
});

Deno.test("nothing came out of a gate: the longer it stands, the longer the wait that it names", async () => {
  const { clock, enter } = setup({ max: 1, maxQueued: 1, queueTimeoutMs: 1e6 });
  enter("a");
  enter("b");
  await clock.advance(4000);
  const refused = enter("c");
  await settle();
  assert.equal(toHubError(refused.refusal).retryAfterMs, 8000);
});

Deno.test("the pace follows what the gate does now", async () => {
  const { clock, gate, enter } = setup({ max: 1, maxQueued: 9, queueTimeoutMs: 1e6 });
  const serve = async (serviceMs: number, rounds: number) => {
    for (let round = 0; round < rounds; round++) {
      assert.ok(gate.tryEnter());
      await clock.advance(serviceMs);
      gate.leave();
    }
  };
  const ask = async () => {
    const guests = Array.from({ length: 11 }, (_, at) => enter(String(at)));
    await settle();
    const { retryAfterMs = 0 } = toHubError(guests.at(-1)?.refusal);
    for (const guest of guests) guest.abort.abort();
    await settle();
    gate.leave();
    return retryAfterMs;
  };
  await serve(5000, 100);
  assert.equal(await ask(), 50_000);
  await serve(200, 500);
  const faster = await ask();
  assert.ok(faster > 2000 && faster < 2500, `${faster} ms`);
});

const move = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ kind: "enter" as const, at: 0 }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("leave" as const), at: fc.nat(50) }) },
  fc.record({ kind: fc.constantFrom("abort" as const, "try" as const), at: fc.nat(50) }),
  fc.record({ kind: fc.constant("wait" as const), at: fc.nat(700) }),
);

property(
  "never more inside than allowed, none waits beside a free place, first come is first in, and no place is lost",
  fc.tuple(
    fc.integer({ min: 1, max: 3 }),
    fc.integer({ min: 0, max: 5 }),
    fc.array(move, { maxLength: 60 }),
  ),
  async ([max, maxQueued, moves]) => {
    const { clock, deadlines, tally, gate, entered, enter, out } = setup({ max, maxQueued });
    const guests: Guest[] = [];
    const of = (state: Guest["state"]) => guests.filter((guest) => guest.state === state);
    const next = () => String(guests.length).padStart(3, "0");
    for (const { kind, at } of moves) {
      const inside = of("inside");
      if (kind === "enter") guests.push(enter(next()));
      else if (kind === "wait") await clock.advance(at);
      else if (kind === "abort") guests[at % Math.max(1, guests.length)]?.abort.abort();
      else if (kind === "try") {
        const name = next();
        if (gate.tryEnter()) {
          guests.push({ name, abort: new AbortController(), state: "inside", refusal: null });
          entered.push(name);
        }
      } else {
        const guest = inside[at % Math.max(1, inside.length)];
        if (guest !== undefined) out(guest);
      }
      await settle();
      const waiting = of("waiting").length;
      assert.ok(of("inside").length <= max);
      assert.ok(waiting === 0 || of("inside").length === max);
      assert.ok(waiting <= maxQueued);
      assert.equal(deadlines.size, waiting > 0 ? 1 : 0);
      assert.deepEqual([tally.inside, tally.waiting], [of("inside").length, waiting]);
    }
    assert.deepEqual(entered, entered.toSorted());
    for (let inside = of("inside"); inside.length > 0; inside = of("inside")) {
      for (const guest of inside) out(guest);
      await settle();
    }
    assert.equal(of("waiting").length, 0);
    assert.ok(gate.isIdle);
    for (let place = 0; place < max; place++) assert.ok(gate.tryEnter());
    assert.equal(gate.tryEnter(), false);
  },
  { runs: 100 },
);

Deno.test("another limit lets in who waits, or nobody until enough have left", async () => {
  const { tally, gate, entered, enter, out } = setup({ max: 1, maxQueued: 9, inside: 1 });
  const limits = (max: number) => ({ max, maxQueued: 9, queueTimeoutMs: TIMEOUT_MS });
  const guests = ["a", "b", "c", "d"].map(enter);
  await settle();
  assert.deepEqual([entered, tally.inside], [[], 1], "one was inside before there was a gate");
  gate.resize(limits(3));
  await settle();
  assert.deepEqual([entered, tally.inside, tally.waiting], [["a", "b"], 3, 2]);
  gate.resize(limits(1));
  gate.leave();
  for (const guest of guests.slice(0, 1)) out(guest);
  await settle();
  assert.deepEqual([entered, tally.inside], [["a", "b"], 1], "one place, and it is taken");
  for (const guest of guests.slice(1, 2)) out(guest);
  await settle();
  assert.deepEqual([entered, tally.inside], [["a", "b", "c"], 1]);
  gate.resize({ max: Infinity, maxQueued: Infinity, queueTimeoutMs: 0 });
  await settle();
  assert.deepEqual([tally.inside, tally.waiting, gate.hasRoom], [2, 0, true]);
});
