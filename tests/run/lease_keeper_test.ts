import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { LeaseKeeper } from "../../src/run/lease_keeper.ts";
import type { OwnedRun } from "../../src/store/run_commit.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const LEASE_MS = 15_000;
const run = { tenantId: "t", runId: "run_1", epoch: 1 };
const OWNED = new Map<string, OwnedRun>([["run_1", { stopRequested: false, steered: 0 }]]);

/** A keeper whose renewals are answered when the test says so. */
function rig() {
  const clock = createFakeClock();
  const asked: { atMs: number; epoch: number; answer(owned: Map<string, OwnedRun>): void }[] = [];
  const lost: number[] = [];
  const keeper = new LeaseKeeper({
    renew([one]) {
      const { promise, resolve: answer } = Promise.withResolvers<Map<string, OwnedRun>>();
      asked.push({ atMs: clock.monotonic(), epoch: one?.epoch ?? 0, answer });
      return promise;
    },
    onRenewed() {},
    onLost: () => lost.push(clock.monotonic()),
    clock,
    log: SILENT_LOG,
    leaseMs: LEASE_MS,
  });
  return { clock, keeper, asked, lost };
}

Deno.test("a late answer about a claim that was lost says nothing about the next one", async () => {
  const { clock, keeper, asked, lost } = rig();
  keeper.hold(run);
  await clock.advance(5000);
  keeper.release(run.runId);
  keeper.hold({ ...run, epoch: 2 });
  asked[0]?.answer(new Map());
  await settle();
  assert.deepEqual(lost, []);
  await clock.advance(5000);
  assert.deepEqual(asked.map(({ epoch }) => epoch), [1, 2]);
  keeper.close();
});

Deno.test("a lease counts from when it was asked for, however late the answer that gave it", async () => {
  const { clock, keeper, asked, lost } = rig();
  await clock.advance(9000);
  keeper.hold({ ...run, leasedMs: 0 });
  await clock.advance(2500);
  assert.deepEqual(lost, [11_500]);
  assert.deepEqual(asked, []);
  assert.equal(clock.pending(), 0);
});

Deno.test("a renewal counts from when it was asked for, however late its answer", async () => {
  const { clock, keeper, asked, lost } = rig();
  keeper.hold(run);
  await clock.advance(5000);
  await clock.advance(4900);
  const [first] = asked;
  first?.answer(OWNED);
  await clock.advance(10_100);
  assert.equal(first?.atMs, 5000);
  assert.deepEqual(lost, [15_000]);
  assert.equal(clock.pending(), 0);
});
