import assert from "node:assert/strict";
import { toUuid } from "../../src/core/id.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import type { Database } from "../../src/store/database.ts";
import { pruneEvents } from "../../src/store/prune_events.ts";
import { beginRun, LEASE_MS, write } from "../run/run_rig.ts";
import { openTestDatabase, SWITCHES, withDatabase } from "../support/postgres.ts";

const REPLICAS = 6;
const RUNS = 60;
const LIMIT = 7;

/** Both ways to claim where both are to be had. */
const WAYS = SWITCHES.skipLocked ? [true, false] : [false];
const nameOf = (skipLocked: boolean) => skipLocked ? "SKIP LOCKED" : "compare-and-set";

/** Several replicas' pools over one database. */
async function withReplicas(
  skipLocked: boolean,
  body: (replicas: Database[], db: Database) => Promise<void>,
): Promise<void> {
  await withDatabase(async (db, url) => {
    const replicas = Array.from(
      { length: REPLICAS },
      () => openTestDatabase(url, { poolSize: 2, readPoolSize: 1, skipLocked }),
    );
    try {
      await body(replicas, db);
    } finally {
      await Promise.all(replicas.map((replica) => replica.close()));
    }
  });
}

const claim = (db: Database, more: { owner?: string; leaseMs?: number; limit?: number } = {}) =>
  claimAbandoned(db, { owner: "me", leaseMs: LEASE_MS, limit: LIMIT, ...more });

/** Runs whose leases have run out, in the order in which they are to be claimed. */
async function abandonedRuns(db: Database, count: number): Promise<string[]> {
  const ids = await Promise.all(Array.from({ length: count }, async () => {
    return (await beginRun(db)).runId;
  }));
  for (const [at, runId] of ids.entries()) {
    await db.control`update hub.runs set lease_until = now() - interval '1 second',
      run_after = now() - ${count - at}::int * interval '1 second' where run_id = ${toUuid(runId)}`;
  }
  return ids;
}

for (const skipLocked of WAYS) {
  Deno.test(`replicas that claim at once get each run once: ${nameOf(skipLocked)}`, async () => {
    await withReplicas(skipLocked, async (replicas, db) => {
      const alive = await beginRun(db);
      const ids = await abandonedRuns(db, RUNS);
      const owners = new Map<string, string>();
      await Promise.all(replicas.map(async (replica, at) => {
        while (owners.size < RUNS) {
          const runs = await claim(replica, { owner: `replica ${at}` });
          assert.ok(runs.length <= LIMIT);
          for (const { runId, epoch, poisoned } of runs) {
            assert.equal(owners.has(runId), false, "claimed twice");
            assert.deepEqual([epoch, poisoned], [2, false]);
            owners.set(runId, `replica ${at}`);
          }
        }
      }));
      assert.deepEqual([...owners.keys()].sort(), ids.toSorted());
      const rows = await db.read<{ run: string; owner: string; epoch: number; attempts: number }[]>`
        select 'run_' || replace(run_id::text, '-', '') as run, lease_owner as owner, lease_epoch::int as epoch,
          attempts from hub.runs where lease_until > now()`;
      assert.equal(rows.length, RUNS + 1);
      for (const { run, owner, epoch, attempts } of rows) {
        const wanted = run === alive.runId ? ["test", 1, 1] : [owners.get(run), 2, 2];
        assert.deepEqual([owner, epoch, attempts], wanted);
      }
    });
  });

  Deno.test(`those that waited longest are claimed first: ${nameOf(skipLocked)}`, async () => {
    await withReplicas(skipLocked, async ([replica = assert.fail()], db) => {
      const ids = await abandonedRuns(db, 5);
      const claimed = (await claim(replica, { limit: 3 })).map(({ runId }) => runId);
      assert.deepEqual(claimed.toSorted(), ids.slice(0, 3).toSorted());
    });
  });

  Deno.test(`replicas that prune at once drop each log once: ${nameOf(skipLocked)}`, async () => {
    await withReplicas(skipLocked, async (replicas, db) => {
      for (let at = 0; at < 20; at++) {
        const run = await beginRun(db);
        await write(db, run, [run.start]);
        await db
          .control`update hub.runs set status = 'completed', finished_at = now() - interval '2 hours'
          where run_id = ${toUuid(run.runId)}`;
      }
      const dropped = await Promise.all(replicas.map((db) => pruneEvents(db, 1, { batch: 3 })));
      assert.equal(dropped.reduce((sum, count) => sum + count), 20);
      const [left] = await db.read<{ events: number; unmarked: number }[]>`
        select (select count(*)::int from hub.run_events) as events,
          (select count(*)::int from hub.runs where events_pruned_at is null) as unmarked`;
      assert.deepEqual({ ...left }, { events: 0, unmarked: 0 });
    });
  });
}

/** A replica that does something between its look and its first claim. */
function pausing(db: Database, pause: () => Promise<unknown>): Database {
  let looked = false;
  return {
    ...db,
    async within(query) {
      const answer = await db.within(query);
      if (!looked) await pause();
      looked = true;
      return answer;
    },
  };
}

Deno.test("a look that is out of date claims nothing: compare-and-set", async () => {
  await withReplicas(false, async ([first = assert.fail(), second = assert.fail()], db) => {
    await abandonedRuns(db, 2);
    // The other one's leases have run out too: only the epoch tells that it was there.
    const late = pausing(first, () => claim(second, { owner: "other", leaseMs: -1 }));
    assert.deepEqual(await claim(late), []);
    const rows = await db.read`select lease_owner, lease_epoch::int as epoch from hub.runs`;
    assert.deepEqual(rows.map((row) => Object.values(row)), [["other", 2], ["other", 2]]);

    const over = pausing(first, () => db.control`update hub.runs set status = 'cancelled'`);
    assert.deepEqual(await claim(over), []);
  });
});

Deno.test("a claim that fails takes no other along; only a look that gets nothing else throws", async () => {
  await withReplicas(false, async ([first = assert.fail()], db) => {
    const ids = await abandonedRuns(db, 3);
    /** Loses the statements of these numbers, the look being number 0. */
    const losing = (numbers: number[]): Database => {
      let number = 0;
      const within: Database["within"] = (query) =>
        numbers.includes(number++) ? Promise.reject(new Error("lost")) : first.within(query);
      return { ...first, within };
    };
    await assert.rejects(claim(losing([0])), /lost/);
    await assert.rejects(claim(losing([1, 2, 3])), /lost/);
    assert.deepEqual((await claim(losing([2]))).map(({ runId }) => runId), [ids[0], ids[2]]);
    assert.deepEqual((await claim(first)).map(({ runId }) => runId), [ids[1]]);
  });
});
