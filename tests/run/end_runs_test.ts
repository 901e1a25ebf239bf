import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { endRuns } from "../../src/run/end_runs.ts";
import type { LeaveOptions } from "../../src/run/live_run.ts";
import { createFakeClock } from "../support/fake_clock.ts";

/** Ends runs that take `leave` to be left; gives what was called. */
function rig(leave: () => Promise<void> = () => Promise.resolve()) {
  const calls: string[] = [];
  const clock = createFakeClock();
  const live = {
    size: 1,
    leave({ graceMs, silentMs }: LeaveOptions) {
      calls.push(`leave ${graceMs} ${silentMs}`);
      return leave();
    },
    close(reason: string) {
      calls.push(`close: ${reason}`);
      return Promise.resolve();
    },
  };
  const end = (graceMs: number | null) => {
    const leave = graceMs === null ? null : { graceMs, silentMs: 2000 };
    return endRuns(live, { leave, clock, log: SILENT_LOG });
  };
  return { calls, clock, end };
}

Deno.test("runs are stopped, or left first", async () => {
  const stopped = rig();
  await stopped.end(null);
  assert.deepEqual(stopped.calls, ["close: the hub is stopping"]);
  const left = rig();
  await left.end(5000);
  assert.deepEqual(left.calls, ["leave 5000 2000", "close: the hub is stopping"]);
});

Deno.test("what is not left does not keep the rest from closing", async () => {
  const failing = rig(() => Promise.reject(new Error("no Postgres")));
  await assert.rejects(failing.end(5000), /no Postgres/);
  assert.deepEqual(failing.calls, ["leave 5000 2000", "close: the hub is stopping"]);
  const stuck = rig(() => new Promise(() => {}));
  const ended = stuck.end(5000);
  await stuck.clock.advance(15_000);
  await ended;
  assert.deepEqual(stuck.calls, ["leave 5000 2000"]);
});
