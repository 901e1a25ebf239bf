import assert from "node:assert/strict";
import { RunWakeups } from "../../src/run/run_wakeups.ts";
import type { LogPage } from "../../src/run/look_at_log.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const run = (runId: string) => ({ tenantId: "t", runId });

function setup() {
  const clock = createFakeClock();
  const state = { pollMs: 1000 };
  const looks: (ReturnType<typeof Promise.withResolvers<LogPage>> & { place: string })[] = [];
  const wakeups = new RunWakeups({
    look({ tenantId, runId }, after) {
      const look = { ...Promise.withResolvers<LogPage>(), place: `${tenantId} ${runId} ${after}` };
      looks.push(look);
      return look.promise;
    },
    pollMs: () => state.pollMs,
    clock,
  });
  const abort = new AbortController();
  /** Waits, and notes when it has waited. */
  const waiting = (watch: ReturnType<RunWakeups["watch"]>) => {
    const wait = { over: false };
    void watch.next(abort.signal).then(() => wait.over = true);
    return wait;
  };
  return { clock, state, looks, wakeups, abort, waiting };
}

Deno.test("a watcher is woken by news of its run only", async () => {
  const { clock, wakeups, waiting } = setup();
  const mine = [wakeups.watch(run("a")), wakeups.watch(run("a"))];
  const other = wakeups.watch(run("b"));
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
  const watch = wakeups.watch(run("a"));
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
  const watch = wakeups.watch(run("a"));
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
  const watch = wakeups.watch(run("a"));
  const wait = waiting(watch);
  abort.abort();
  await settle();
  assert.equal(wait.over, true);
  await watch.next(abort.signal);
  assert.equal(clock.pending(), 0);
});

Deno.test("a closed watcher is gone, and the others stay", async () => {
  const { wakeups, waiting } = setup();
  const [gone, stays] = [wakeups.watch(run("a")), wakeups.watch(run("a"))];
  gone.close();
  gone.close();
  const wait = waiting(stays);
  wakeups.wake(["a"]);
  await settle();
  assert.equal(wait.over, true);
  stays.close();
  const late = wakeups.watch(run("a"));
  stays.close();
  const again = waiting(late);
  wakeups.wake(["a"]);
  await settle();
  assert.equal(again.over, true);
});

Deno.test("readers at one place share a reading, but none that began before the news", async () => {
  const { looks, wakeups } = setup();
  const [a, b] = [wakeups.watch(run("a")), wakeups.watch(run("a"))];
  const other = wakeups.watch({ tenantId: "u", runId: "a" });
  const old: LogPage = { events: [], run: "goes-on" };
  const news: LogPage = { events: [], run: "over" };
  const first = [a.look(1), b.look(1), b.look(2), other.look(1)];
  assert.deepEqual(looks.map(({ place }) => place), ["t a 1", "t a 2", "u a 1"]);
  wakeups.wake(["a"]);
  const second = [b.look(1), a.look(1)];
  assert.equal(looks.length, 4);
  for (const look of looks) look.resolve(look === looks[3] ? news : old);
  assert.deepEqual(await Promise.all(first), [old, old, old, old]);
  assert.deepEqual(await Promise.all(second), [news, news]);
  const failed = a.look(1);
  looks[4]?.reject(new Error("Postgres is away"));
  await assert.rejects(failed);
  void b.look(1);
  assert.equal(looks.length, 6);
});
