import assert from "node:assert/strict";
import fc from "fast-check";
import { TargetHealth } from "../../src/router/target_health.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const TARGET = "p/m";

function setup() {
  const clock = createFakeClock();
  const health = new TargetHealth(clock);
  return {
    clock,
    health,
    fail(times: number, target = TARGET) {
      for (let turn = 0; turn < times; turn++) health.failed(target);
    },
  };
}

/** A target that five failures have just put to rest. */
function resting() {
  const rig = setup();
  rig.fail(5);
  return rig;
}

Deno.test("five failures within ten seconds rest a target, and only that one", () => {
  const { health, fail } = setup();
  fail(4);
  assert.equal(health.allows(TARGET), true);
  fail(1);
  assert.equal(health.allows(TARGET), false);
  assert.equal(health.allows("p/other"), true);
});

Deno.test("failures that lie further apart than ten seconds do not add up", async () => {
  const { clock, health, fail } = setup();
  fail(4);
  await clock.advance(10_000);
  fail(4);
  assert.equal(health.allows(TARGET), true);
});

Deno.test("a success forgets the failures before it", () => {
  const { health, fail } = setup();
  fail(4);
  health.succeeded(TARGET);
  fail(4);
  assert.equal(health.allows(TARGET), true);
});

Deno.test("a target rests for five seconds, then one asker probes and the others wait", async () => {
  const { clock, health } = resting();
  await clock.advance(4999);
  assert.equal(health.allows(TARGET), false);
  await clock.advance(1);
  assert.deepEqual([1, 2, 3].map(() => health.allows(TARGET)), [true, false, false]);
});

Deno.test("a probe that succeeds opens the target to all", async () => {
  const { clock, health, fail } = resting();
  await clock.advance(5000);
  health.allows(TARGET);
  health.succeeded(TARGET);
  assert.deepEqual([1, 2, 3].map(() => health.allows(TARGET)), [true, true, true]);
  fail(4);
  assert.equal(health.allows(TARGET), true);
});

Deno.test("a probe that fails rests the target for another five seconds", async () => {
  const { clock, health, fail } = resting();
  await clock.advance(60_000);
  assert.equal(health.allows(TARGET), true);
  fail(1);
  assert.equal(health.allows(TARGET), false);
  await clock.advance(4999);
  assert.equal(health.allows(TARGET), false);
  await clock.advance(1);
  assert.deepEqual([1, 2].map(() => health.allows(TARGET)), [true, false]);
});

Deno.test("a probe without a verdict leaves the probe to the next asker", async () => {
  const { clock, health } = resting();
  await clock.advance(5000);
  assert.equal(health.allows(TARGET), true);
  health.released(TARGET);
  assert.deepEqual([1, 2].map(() => health.allows(TARGET)), [true, false]);
});

Deno.test("a failure that comes late never shortens the rest", async () => {
  const { clock, health, fail } = resting();
  await clock.advance(3000);
  fail(1);
  await clock.advance(4999);
  assert.equal(health.allows(TARGET), false);
  await clock.advance(1);
  assert.equal(health.allows(TARGET), true);
});

Deno.test("a failure of an older attempt is no verdict of the probe", async () => {
  const { clock, health } = resting();
  await clock.advance(5000);
  assert.equal(health.ask(TARGET), "probe");
  health.failed(TARGET, false);
  await clock.advance(20_000);
  assert.equal(health.ask(TARGET), "rests");
  health.failed(TARGET, true);
  await clock.advance(5000);
  assert.equal(health.ask(TARGET), "probe");
});

Deno.test("a target rests as long as it says, and the later of two ends counts", async () => {
  const { clock, health } = setup();
  health.rest(TARGET, 9000);
  health.rest(TARGET, 2000);
  assert.equal(health.restsUntil(TARGET), 9000);
  await clock.advance(8999);
  assert.equal(health.rests(TARGET), true);
  await clock.advance(1);
  assert.deepEqual([1, 2].map(() => health.ask(TARGET)), ["probe", "rests"]);
  assert.equal(health.rests(TARGET), true, "while it is probed");
});

Deno.test("releasing a target that nobody knows does nothing", () => {
  const { health } = setup();
  health.released("p/unknown");
  assert.equal(health.allows("p/unknown"), true);
});

Deno.test("retries of a provider have a burst of thirty, then a tenth of its requests", () => {
  const { health } = setup();
  const granted = () => {
    let count = 0;
    while (count < 1000 && health.mayRetry("p")) count++;
    return count;
  };
  assert.equal(granted(), 30);
  for (let request = 0; request < 101; request++) health.requested("p");
  assert.equal(granted(), 10);
  assert.equal(health.mayRetry("other"), true);
});

Deno.test("retries come back at three a second, up to the burst", async () => {
  const { clock, health } = setup();
  const granted = () => {
    let count = 0;
    while (count < 1000 && health.mayRetry("p")) count++;
    return count;
  };
  granted();
  await clock.advance(2000);
  assert.equal(granted(), 6);
  await clock.advance(3_600_000);
  assert.equal(granted(), 30);
});

const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant("failed" as const) },
  { weight: 4, arbitrary: fc.constant("ask" as const) },
  fc.constantFrom("succeeded" as const, "wait" as const, "long wait" as const),
);

property(
  "between a rest and a verdict there is one probe, and a rested target always comes back",
  fc.array(step, { maxLength: 60 }),
  async (steps) => {
    const { clock, health } = setup();
    let probes = 0;
    let rested = false;
    for (const one of steps) {
      if (one === "ask") {
        const allowed = health.allows(TARGET);
        if (rested && allowed) probes++;
        if (!rested && !allowed) rested = true;
        assert.ok(probes <= 1, "two probes at a time");
      } else if (one === "wait") await clock.advance(1000);
      else if (one === "long wait") await clock.advance(5000);
      else {
        health[one](TARGET);
        probes = 0;
        if (one === "succeeded") rested = false;
      }
    }
    health.released(TARGET);
    await clock.advance(5000);
    assert.equal(health.allows(TARGET), true);
  },
  { runs: 50 },
);
