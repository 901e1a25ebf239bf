import assert from "node:assert/strict";
import type { Clock } from "../../src/core/clock.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { startHousekeeping } from "../../src/run/housekeeping.ts";
import type { TakeOverOptions } from "../../src/run/take_over.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";

/** Housekeeping whose looks for runs take as long as `state.answer`. */
function rig(log = SILENT_LOG) {
  const clock = createFakeClock();
  const looks: number[] = [];
  const state = {
    answer: (): Promise<unknown[]> => Promise.resolve([]),
    prune: (): Promise<unknown[]> => Promise.resolve([{ runs: 0, dropped: 0 }]),
  };
  const db = createFakeDatabase(({ text }) => {
    if (!text.startsWith("\n    update hub.runs r set")) return state.prune();
    looks.push(clock.monotonic());
    return state.answer();
  });
  const time: Clock = clock;
  const start = { db, clock: time, owner: "test", leaseMs: 15_000, log: SILENT_LOG };
  const housekeeping = startHousekeeping({
    db,
    clock,
    log,
    leaseMs: 15_000,
    retentionHours: 1,
    takeOver: { start } as TakeOverOptions,
  });
  return { clock, looks, state, housekeeping };
}

Deno.test("abandoned runs are looked for every five seconds, and at once when some may have been left", async () => {
  const { clock, looks, state, housekeeping } = rig();
  await clock.advance(7000);
  housekeeping.lookForRuns();
  await clock.advance(5000);
  assert.deepEqual(looks, [0, 5000, 7000, 12_000]);
  // What is left during a look may be missed by it: one more, however many are told.
  const gate = Promise.withResolvers<unknown[]>();
  state.answer = () => gate.promise;
  housekeeping.lookForRuns();
  housekeeping.lookForRuns();
  housekeeping.lookForRuns();
  await clock.advance(60_000);
  assert.equal(looks.length, 5);
  gate.resolve([]);
  await settle();
  assert.equal(looks.length, 6);
  await housekeeping.stop();
  assert.equal(clock.pending(), 0);
});

Deno.test("a look that failed is made again in time", async () => {
  const { clock, looks, state, housekeeping } = rig();
  await settle();
  state.answer = () => Promise.reject(new Error("no Postgres"));
  await clock.advance(10_000);
  assert.equal(looks.length, 3);
  await housekeeping.stop();
});

Deno.test("the end waits for a look that is under way, and not for ever", async () => {
  const { clock, state, housekeeping } = rig();
  await settle();
  const gate = Promise.withResolvers<unknown[]>();
  state.answer = () => gate.promise;
  housekeeping.lookForRuns();
  let stopped = false;
  const stopping = housekeeping.stop().then(() => stopped = true);
  housekeeping.lookForRuns();
  await clock.advance(4999);
  assert.equal(stopped, false);
  await clock.advance(1);
  await stopping;
  gate.resolve([]);
  await settle();
  assert.equal(clock.pending(), 0);
});

Deno.test("the end waits for work under way, and says nothing of what it interrupts", async () => {
  const lines: string[] = [];
  const log: Log = { ...SILENT_LOG, warn: (message) => void lines.push(message) };
  const { clock, state, housekeeping } = rig(log);
  await settle();
  const gate = Promise.withResolvers<unknown[]>();
  state.prune = () => gate.promise;
  await clock.advance(30_000);
  // Rows of the fake that are wrong for some of the work.
  lines.length = 0;
  let stopped = false;
  const stopping = housekeeping.stop().then(() => stopped = true);
  await clock.advance(999);
  assert.equal(stopped, false, "work is under way");
  gate.reject(new Error("the pool is closed"));
  await stopping;
  assert.deepEqual(lines, []);
  assert.equal(clock.pending(), 0);
});

Deno.test("work that fails before the end is told", async () => {
  const lines: string[] = [];
  const log: Log = { ...SILENT_LOG, warn: (message) => void lines.push(message) };
  const { state, housekeeping } = rig(log);
  state.prune = () => Promise.reject(new Error("no Postgres"));
  await settle();
  await housekeeping.stop();
  assert.ok(lines.length > 0);
});
