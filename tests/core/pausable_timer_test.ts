import assert from "node:assert/strict";
import { PausableTimer } from "../../src/core/pausable_timer.ts";
import { createFakeClock } from "../support/fake_clock.ts";

Deno.test("a limit stands still while something is waited for, and goes on with what was left", async () => {
  const clock = createFakeClock();
  let late = 0;
  const timer = new PausableTimer(clock, { ms: 100, onLate: () => void late++ });
  await clock.advance(60);
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  const pauses = [first, second].map(({ promise }) => timer.pausedFor(() => promise));
  await clock.advance(1000);
  first.resolve();
  await pauses[0];
  await clock.advance(1000);
  assert.equal(late, 0);
  second.resolve();
  await pauses[1];
  await clock.advance(39);
  assert.equal(late, 0);
  await clock.advance(1);
  assert.equal(late, 1);
});

Deno.test("a limit that has ended does not begin again behind a pause", async () => {
  const clock = createFakeClock();
  const timer = new PausableTimer(clock, { ms: 10, onLate: () => assert.fail("too late") });
  const held = Promise.withResolvers<void>();
  const pause = timer.pausedFor(() => held.promise);
  timer.end();
  held.resolve();
  await pause;
  await clock.advance(1000);
});
