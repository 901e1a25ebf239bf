import assert from "node:assert/strict";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { NotifyQueue } from "../../src/store/notify_queue.ts";
import type { Wakeup } from "../../src/store/wakeup.ts";
import { createFakeClock } from "../support/fake_clock.ts";

function setup() {
  const clock = createFakeClock();
  const sent: (Wakeup & { atMs: number })[] = [];
  const outcomes: string[] = [];
  const state = { answer: (): Promise<void> => Promise.resolve(), warnings: 0 };
  const log: Log = { ...SILENT_LOG, warn: () => void state.warnings++ };
  const queue = new NotifyQueue({
    send(wakeup) {
      sent.push({ ...wakeup, atMs: clock.monotonic() });
      return state.answer();
    },
    observe: (outcome) => outcomes.push(outcome),
    clock,
    log,
  });
  return { clock, sent, outcomes, state, queue };
}

Deno.test("the first news leaves at once, more of it together, 15 ms apart", async () => {
  const { clock, sent, queue } = setup();
  queue.committed("a");
  queue.committed("b");
  queue.committed("a");
  await clock.advance(0);
  for (const id of ["c", "a", "c"]) {
    await clock.advance(3);
    queue.committed(id);
  }
  queue.requested("s");
  await clock.advance(100);
  queue.committed("a");
  await clock.advance(0);
  assert.deepEqual(sent, [
    { runs: ["a", "b"], atMs: 0 },
    { runs: ["c", "a"], stops: ["s"], atMs: 15 },
    { runs: ["a"], atMs: 109 },
  ]);
  assert.equal(clock.pending(), 0);
});

Deno.test("that runs were left is told once for all of them", async () => {
  const { clock, sent, queue } = setup();
  queue.left();
  queue.left();
  await clock.advance(0);
  queue.left();
  await queue.close();
  queue.left();
  assert.deepEqual(sent, [{ left: true, atMs: 0 }, { left: true, atMs: 0 }]);
  assert.equal(clock.pending(), 0);
});

Deno.test("one statement is under way at a time, what comes meanwhile waits for it", async () => {
  const { clock, sent, state, queue } = setup();
  const gate = Promise.withResolvers<void>();
  state.answer = () => gate.promise;
  queue.committed("a");
  await clock.advance(0);
  queue.committed("b");
  await clock.advance(1000);
  assert.equal(sent.length, 1);
  gate.resolve();
  await clock.advance(0);
  assert.deepEqual(sent.at(-1), { runs: ["b"], atMs: 1000 });
});

Deno.test("what is not sent is forgotten and counted, and said once", async () => {
  const { clock, sent, outcomes, state, queue } = setup();
  state.answer = () => Promise.reject(new Error("no NOTIFY here"));
  for (const id of ["a", "b"]) {
    queue.committed(id);
    await clock.advance(15);
  }
  state.answer = () => Promise.resolve();
  queue.committed("c");
  await clock.advance(15);
  assert.deepEqual(sent.map(({ runs }) => runs), [["a"], ["b"], ["c"]]);
  assert.deepEqual(outcomes, ["failed", "failed", "sent"]);
  assert.equal(state.warnings, 1);
});

Deno.test("at the end what waits is sent, and nothing more is taken", async () => {
  const { clock, sent, queue } = setup();
  queue.committed("a");
  await queue.close();
  queue.committed("b");
  queue.requested("b");
  await clock.advance(100);
  assert.deepEqual(sent, [{ runs: ["a"], atMs: 0 }]);
  assert.equal(clock.pending(), 0);
});
