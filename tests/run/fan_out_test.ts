import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { FanOut } from "../../src/run/fan_out.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createFakeDatabase } from "../support/fake_database.ts";

Deno.test("without NOTIFY nothing is sent, readers here are woken all the same, and stops are looked for every second", async () => {
  const clock = createFakeClock();
  const sent: string[] = [];
  const fanOut = new FanOut({
    db: createFakeDatabase(({ text }) => {
      sent.push(text);
      return Promise.resolve([]);
    }),
    directUrl: "postgres://127.0.0.1:1/none",
    enabled: false,
    metrics: { notification() {}, listenerUp() {} },
    clock,
    random: () => 1,
    log: SILENT_LOG,
  });
  const state = { looks: 0, woken: false, answer: Promise.resolve() };
  fanOut.listen({
    onRequests() {
      state.looks++;
      return state.answer;
    },
    onKeys: () => Promise.resolve(),
    onMcp: () => Promise.resolve(),
    onGranted() {},
    onProviders: () => Promise.resolve(),
    onLeft() {},
  });
  await clock.advance(3000);
  assert.equal(state.looks, 4);
  // A look that hangs is not asked for again.
  const gate = Promise.withResolvers<void>();
  state.answer = gate.promise;
  await clock.advance(5000);
  assert.equal(state.looks, 5);

  const watch = fanOut.wakeups.watch({ tenantId: "t", runId: "a" });
  void watch.next(new AbortController().signal).then(() => state.woken = true);
  fanOut.committed("a");
  fanOut.requested("a");
  fanOut.left();
  await clock.advance(0);
  assert.equal(state.woken, true);
  await fanOut.close();
  gate.resolve();
  await clock.advance(5000);
  assert.deepEqual(sent, []);
  assert.equal(state.looks, 5);
  assert.equal(clock.pending(), 0);
});
