import assert from "node:assert/strict";
import { RunWakeups } from "../../src/run/run_wakeups.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

function setup() {
  const clock = createFakeClock();
  const state = { pollMs: 1000 };
  const wakeups = new RunWakeups({ clock, pollMs: () => state.pollMs });
  const abort = new AbortController();
  /** Waits, and notes when it has waited. */
  const waiting = (watch: ReturnType<RunWakeups["watch"]>) => {
    const wait = { over: false };
    void watch.next(abort.signal).then(() => wait.over = true);
    return wait;
  };
  return { clock, state, wakeups, abort, waiting };
}

Deno.test("a watcher is woken by news of its run only", async () => {
  const { clock, wakeups, waiting } = setup();
  const mine = [wakeups.watch("a"), wakeups.watch("a")];
  const other = wakeups.watch("b");
  const waits = [...mine, other].map(waiting);
  wakeups.wake(["a", "c"]);
  await settle();
  assert.deepEqual(waits.map(({ over }) => over), [true, true, false]);
  wakeups.wakeAll();
  await settle();
  assert.equal(waits[2]?.over, true);
  assert.equal(clock.pending(), 0);
});

Deno.test("news between two waits are not missed", async () => {
  const { wakeups, waiting } = setup();
  const watch = wakeups.watch("a");
  wakeups.wake(["a"]);
  wakeups.wake(["a"]);
  const first = waiting(watch);
  await settle();
  assert.equal(first.over, true);
  const second = waiting(watch);
  await settle();
  assert.equal(second.over, false);
  wakeups.wake(["a"]);
  await settle();
  assert.equal(second.over, true);
});

Deno.test("without news a wait ends when it is time to look", async () => {
  const { clock, state, wakeups, waiting } = setup();
  const watch = wakeups.watch("a");
  for (const pollMs of [1000, 250]) {
    state.pollMs = pollMs;
    const wait = waiting(watch);
    await clock.advance(pollMs - 1);
    assert.equal(wait.over, false);
    await clock.advance(1);
    assert.equal(wait.over, true);
  }
});

Deno.test("a reader that leaves ends its wait, before or after it began", async () => {
  const { clock, wakeups, abort, waiting } = setup();
  const watch = wakeups.watch("a");
  const wait = waiting(watch);
  abort.abort();
  await settle();
  assert.equal(wait.over, true);
  await watch.next(abort.signal);
  assert.equal(clock.pending(), 0);
});

Deno.test("a closed watcher is gone, and the others stay", async () => {
  const { wakeups, waiting } = setup();
  const [gone, stays] = [wakeups.watch("a"), wakeups.watch("a")];
  gone.close();
  gone.close();
  const wait = waiting(stays);
  wakeups.wake(["a"]);
  await settle();
  assert.equal(wait.over, true);
  stays.close();
  const late = wakeups.watch("a");
  stays.close();
  const again = waiting(late);
  wakeups.wake(["a"]);
  await settle();
  assert.equal(again.over, true);
});
