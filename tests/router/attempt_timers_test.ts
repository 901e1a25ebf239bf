import assert from "node:assert/strict";
import { Deadlines } from "../../src/core/deadlines.ts";
import type { HubError } from "../../src/core/error.ts";
import { AttemptTimers } from "../../src/router/attempt_timers.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const TIMEOUTS = { connectMs: 10, firstTokenMs: 100, inactivityMs: 50, totalMs: 1000 };

function start() {
  const clock = createFakeClock();
  const deadlines = new Deadlines(clock);
  const expired: HubError[] = [];
  const timers = new AttemptTimers(TIMEOUTS, {
    clock,
    deadlines,
    onExpire: (error) => expired.push(error),
  });
  return { clock, timers, expired, end: () => (timers.stop(), deadlines.close()) };
}

Deno.test("a provider is not late while the client still sends", async () => {
  const { clock, timers, expired, end } = start();
  timers.awaitClient(true);
  await clock.advance(500);
  assert.deepEqual(expired, []);
  timers.awaitClient(false);
  await clock.advance(99);
  assert.deepEqual(expired, []);
  await clock.advance(1);
  assert.deepEqual(expired.map(({ code }) => code), ["upstream_timeout"]);
  end();
});

Deno.test("a client that sends for too long is told so, and the provider is not blamed", async () => {
  const { clock, timers, expired, end } = start();
  timers.awaitClient(true);
  await clock.advance(999);
  assert.deepEqual(expired, []);
  await clock.advance(1);
  assert.deepEqual(expired.map(({ code, status }) => [code, status]), [["invalid_request", 408]]);
  end();
});

Deno.test("an answer that begins before the request is whole must go on", async () => {
  const { clock, timers, expired, end } = start();
  timers.awaitClient(true);
  timers.commit();
  await clock.advance(50);
  assert.deepEqual(expired.map(({ code }) => code), ["upstream_timeout"]);
  end();
});
