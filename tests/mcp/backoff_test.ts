import assert from "node:assert/strict";
import { backoffMs } from "../../src/mcp/backoff.ts";
import { ListRefresh } from "../../src/mcp/list_refresh.ts";
import { Retries } from "../../src/mcp/retries.ts";
import { createFakeClock } from "../support/fake_clock.ts";

const SERIES = [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000];

Deno.test("the wait doubles from 1 s to 60 s, and its second half is drawn", () => {
  const all = (random: number) => SERIES.map((_, at) => backoffMs(at + 1, () => random));
  assert.deepEqual(all(1), SERIES);
  assert.deepEqual(all(0), SERIES.map((ms) => ms / 2));
  assert.deepEqual(all(0.5), SERIES.map((ms) => ms * 0.75));
  assert.equal(backoffMs(1_000_000, () => 1), 60_000);
});

Deno.test("each failure waits longer before the next try, and a connection that held starts anew", async () => {
  const clock = createFakeClock();
  let tries = 0;
  const retries = new Retries({
    clock,
    random: () => 1,
    connect() {
      tries++;
      return Promise.resolve();
    },
  });
  for (const [at, ms] of SERIES.entries()) {
    const state = retries.arm("down");
    assert.deepEqual(state, {
      kind: "backoff",
      reason: "down",
      failures: at + 1,
      nextAtMs: clock.monotonic() + ms,
    });
    await clock.advance(ms - 1);
    assert.equal(tries, at);
    await clock.advance(1);
    assert.equal(tries, at + 1);
  }
  const failuresAfter = async (heldMs: number) => {
    retries.ready();
    await clock.advance(heldMs);
    retries.lost();
    const state = retries.arm("lost");
    retries.stop();
    return state.kind === "backoff" ? state.failures : null;
  };
  assert.equal(await failuresAfter(59_999), 9);
  assert.equal(await failuresAfter(60_000), 1);
  assert.equal(clock.pending(), 0);
});

Deno.test("changes that come while the list is read are one more reading, and none after the end", async () => {
  const clock = createFakeClock();
  const readings: (() => void)[] = [];
  const refresh = new ListRefresh(
    clock,
    () => new Promise((resolve) => readings.push(() => resolve())),
  );
  for (let at = 0; at < 1000; at++) refresh.changed();
  await clock.advance(300);
  assert.equal(readings.length, 1);
  for (let at = 0; at < 1000; at++) refresh.changed();
  await clock.advance(10_000);
  assert.equal(readings.length, 1);
  readings[0]?.();
  await clock.advance(300);
  assert.equal(readings.length, 2);
  readings[1]?.();
  await clock.advance(10_000);
  assert.equal(readings.length, 2);
  refresh.changed();
  await refresh.close();
  await clock.advance(10_000);
  assert.equal(readings.length, 2);
});
