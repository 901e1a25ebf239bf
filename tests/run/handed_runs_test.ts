import assert from "node:assert/strict";
import { HandedCredentials } from "../../src/core/handed_credentials.ts";
import { HandedRuns } from "../../src/run/handed_runs.ts";

const handed = (value: string) => new HandedCredentials(new Map([["one", value]]));

Deno.test("credentials of a run that waits are forgotten in time, those of one that goes on are not", () => {
  let nowMs = 0;
  const runs = new HandedRuns({ clock: { monotonic: () => nowMs }, waitMs: 100 });
  runs.hold("run_a", handed("credential-a"));
  runs.park("run_b", handed("credential-b"));
  nowMs = 99;
  runs.sweep();
  assert.equal(runs.get("run_b")?.valueFor("one"), "credential-b");
  nowMs = 100;
  runs.sweep();
  assert.equal(runs.get("run_b"), null);
  assert.equal(runs.size, 1);
  const ended = { isPaused: false, record: { runId: "run_a" } };
  runs.leave(ended, handed("credential-a"));
  assert.equal(runs.size, 0);
});

Deno.test("of too many runs that wait the oldest are forgotten", () => {
  const runs = new HandedRuns({ clock: { monotonic: () => 0 }, waitMs: 100 });
  const one = handed("credential");
  for (let at = 0; at < 10_005; at++) runs.park(`run_${at}`, one);
  assert.equal(runs.size, 10_000);
  assert.equal(runs.get("run_4"), null);
  assert.notEqual(runs.get("run_5"), null);
});

Deno.test("a run takes other credentials for its own servers only, and whoever uses them hears of it", () => {
  const before = new HandedCredentials(new Map(), ["one"]);
  assert.equal(before.valueFor("one"), null);
  const heard: string[] = [];
  const forget = before.onTake((server) => void heard.push(server));
  assert.equal(before.take(new HandedCredentials(new Map([["two", "credential"]]))), false);
  assert.equal(before.take(handed("credential-1")), true);
  assert.equal(before.take(handed("credential-1")), true);
  assert.deepEqual(heard, ["one"]);
  forget();
  before.take(handed("credential-2"));
  assert.deepEqual([heard.length, before.valueFor("one")], [1, "credential-2"]);
  assert.ok(!`${JSON.stringify(before)}${Deno.inspect(before)}`.includes("credential-"));
});
