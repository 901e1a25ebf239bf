import fc from "fast-check";
import assert from "node:assert/strict";
import { type Deadline, Deadlines } from "../../src/core/deadlines.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

type Step =
  | { do: "set"; which: number; inMs: number }
  | { do: "remove"; which: number }
  | { do: "advance"; ms: number };

const COUNT = 5;
const which = fc.nat(COUNT - 1);
const inMs = fc.oneof(fc.nat(50), fc.constant(Infinity));
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("set" as const), which, inMs }),
  fc.record({ do: fc.constant("remove" as const), which }),
  fc.record({ do: fc.constant("advance" as const), ms: fc.nat(40) }),
);
/** What a deadline does when it expires. */
const reaction = fc.record({
  set: fc.option(fc.tuple(which, inMs)),
  remove: fc.option(which),
  throws: fc.boolean(),
});

property(
  "each deadline expires once when it is due, whatever others do or throw when they expire",
  fc.tuple(
    fc.array(step, { maxLength: 30 }),
    fc.array(reaction, { minLength: COUNT, maxLength: COUNT }),
  ),
  async ([steps, reactions]) => {
    const inner = createFakeClock();
    let thrown = 0;
    const clock = {
      ...inner,
      setTimer: (callback: () => void, ms: number) =>
        inner.setTimer(() => {
          try {
            callback();
          } catch {
            thrown++;
          }
        }, ms),
    };
    const deadlines = new Deadlines(clock);
    const due: (number | null)[] = Array.from({ length: COUNT }, () => null);
    let budget = 50;
    const set = (which: number, ms: number) => {
      due[which] = clock.monotonic() + ms;
      deadlines.set(all[which] ?? assert.fail(), clock.monotonic() + ms);
    };
    const remove = (which: number) => {
      due[which] = null;
      deadlines.remove(all[which] ?? assert.fail());
    };
    let throwers = 0;
    const all: Deadline[] = reactions.map((reaction, index) => ({
      dueMs: Infinity,
      place: -1,
      expire(nowMs) {
        assert.equal(nowMs, clock.monotonic());
        const wanted = due[index];
        assert.ok(wanted !== null && wanted !== undefined && wanted <= nowMs, "it was not due");
        due[index] = null;
        if (budget-- <= 0) return;
        if (reaction.set !== null) set(...reaction.set);
        if (reaction.remove !== null) remove(reaction.remove);
        if (reaction.throws) {
          throwers++;
          throw new Error("expired");
        }
      },
    }));
    for (const step of steps) {
      if (step.do === "set") set(step.which, step.inMs);
      else if (step.do === "remove") remove(step.which);
      else await clock.advance(step.ms);
      // A timer is a millisecond late at most, for deadlines that are due already.
      const nowMs = clock.monotonic();
      for (const ms of due) assert.ok(ms === null || ms >= nowMs - 1 || step.do !== "advance");
      assert.equal(deadlines.size, due.filter((ms) => ms !== null).length);
      assert.ok(inner.pending() <= 1);
    }
    await clock.advance(3000);
    // What expires sets the next deadlines at most fifty times, and each is at most 50 ms away.
    assert.ok(due.every((ms) => ms === null || ms === Infinity));
    assert.equal(thrown > 0, throwers > 0);
    deadlines.close();
    assert.equal(inner.pending(), 0);
    assert.ok(all.every(({ place }) => place === -1));
  },
  { runs: 1000 },
);
