import assert from "node:assert/strict";
import postgres from "postgres";
import type { SequencedEvent } from "../../src/core/event.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { commitRuns } from "../../src/store/commit_runs.ts";
import type { Database } from "../../src/store/database.ts";
import { openListenConnection } from "../../src/store/listen_connection.ts";
import { notify } from "../../src/store/notify.ts";
import type { RunCommit } from "../../src/store/run_commit.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import { readEvents, releaseLease, renewLeases } from "../../src/store/runs.ts";
import { beginRun, callRow, LEASE_MS, tenantId, write } from "../run/run_rig.ts";
import { SWITCHES, testIds, withDatabase } from "../support/postgres.ts";
import { eventually } from "../support/test_hub.ts";

type Run = Awaited<ReturnType<typeof beginRun>>;

const delta = (seq: number): SequencedEvent => ({
  seq,
  event: { type: "text-delta", id: "p0", delta: `d${seq}` },
});

function commitOf({ start: _, ...run }: Run, more: Partial<RunCommit> = {}): RunCommit {
  const rows = { parts: [], steps: [], toolCalls: [] };
  const follows = (more.events?.[0]?.seq ?? 1) - 1;
  return { ...run, epoch: 1, follows, events: [], reserveTo: 8192, ...rows, ...more };
}

const commit = async (db: Database, ...commits: RunCommit[]) =>
  (await commitRuns(db, { commits, leaseMs: LEASE_MS })).size;

/** A step that has begun: enough for the statement that writes rows of all kinds. */
const STEP = { step: 0, state: "started" as const, attempt: 1 };

const FINISH = {
  status: "completed" as const,
  finishReason: "stop" as const,
  usage: NO_USAGE,
  costMicros: 0,
  provider: "p",
  model: "m",
};

/** The lease has run out by the database's own clock. */
const expire = (db: Database, runId: string) =>
  db.control`update hub.runs set lease_until = now() - interval '1 second'
    where run_id = ${toUuid(runId as Id)}`;

const claim = async (db: Database, owner: string) =>
  await claimAbandoned(db, { owner, leaseMs: LEASE_MS, limit: 100 });

/** All that Postgres has of a run. */
async function rowsOf(db: Database, runId: string) {
  const id = toUuid(runId as Id);
  return JSON.stringify([
    await db.read`select * from hub.runs where run_id = ${id}`,
    await db.read`select * from hub.run_events where run_id = ${id} order by seq_from`,
    await db.read`select * from hub.steps where run_id = ${id} order by step`,
    await db.read`select * from hub.tool_calls where run_id = ${id} order by idx`,
    await db.read`select p.* from hub.parts p join hub.messages m using (tenant_id, message_id)
      where m.run_id = ${id} order by part_index`,
  ]);
}

/** Works in a transaction that others see only at its end, which comes once they wait for it or are done. */
async function inTransaction(
  url: string,
  work: (sql: postgres.TransactionSql) => Promise<unknown>,
  others: () => Promise<unknown>[],
): Promise<unknown[]> {
  const sql = postgres(url, { max: 2, onnotice() {} });
  try {
    let started: Promise<unknown>[] = [];
    await sql.begin(async (held) => {
      await work(held);
      let open = 0;
      started = others().map((one) => {
        open++;
        return one.finally(() => open--);
      });
      await eventually(async () => {
        const [row] = await sql<{ waiting: number }[]>`
          select count(*)::int as waiting from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`;
        return row?.waiting === open || null;
      });
    });
    return await Promise.all(started);
  } finally {
    await sql.end();
  }
}

Deno.test("a run is written by its owner alone", async (t) => {
  await withDatabase(async (db, url) => {
    await t.step("a former owner writes nothing, whatever it writes", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start]);
      await expire(db, run.runId);
      const [taken] = await claim(db, "other");
      assert.deepEqual(taken, {
        tenantId,
        runId: run.runId,
        epoch: 2,
        poisoned: false,
        lost: true,
      });
      const before = await rowsOf(db, run.runId);
      const part = { type: "text" as const, id: "p0", text: "x", state: "done" as const };
      const late: Partial<RunCommit>[] = [
        { events: [delta(2)] },
        { events: [delta(2)], parts: [{ index: 0, part }] },
        { steps: [STEP] },
        { toolCalls: [callRow(testIds.next("call"))] },
        { events: [delta(2)], finish: FINISH },
      ];
      for (const more of late) assert.equal(await commit(db, commitOf(run, more)), 0);
      const key = { tenantId, runId: run.runId, epoch: 1 };
      assert.equal((await renewLeases(db, { runs: [key], leaseMs: 60_000 })).size, 0);
      await releaseLease(db, key);
      assert.equal(await rowsOf(db, run.runId), before);
      assert.equal(await commit(db, commitOf(run, { epoch: 2, events: [delta(2)] })), 1);
    });

    for (const [kind, more] of [["events alone", {}], ["rows of all kinds", { steps: [STEP] }]]) {
      await t.step(`numbers are given once to writers of the same moment: ${kind}`, async () => {
        const run = await beginRun(db);
        const first = commitOf(run, { ...more as object, events: [1, 2, 3].map(delta) });
        const second = commitOf(run, {
          ...more as object,
          follows: 0,
          events: [2, 3, 4].map(delta),
        });
        const written = await inTransaction(
          url,
          (sql) => sql`select 1 from hub.runs where run_id = ${toUuid(run.runId)} for update`,
          () => [commit(db, first), commit(db, second)],
        );
        assert.deepEqual(written.toSorted(), [0, 1]);
        const log = await readEvents(db, { tenantId, runId: run.runId, afterSeq: 0, limit: 10 });
        assert.equal(log.length, 3);
      });
    }

    await t.step("a run is claimed by one, also when two look at the same moment", async () => {
      const run = await beginRun(db);
      await expire(db, run.runId);
      const [late] = await inTransaction(
        url,
        (sql) =>
          sql`update hub.runs set lease_owner = 'first', lease_epoch = lease_epoch + 1,
            lease_until = now() + interval '10 minutes' where run_id = ${toUuid(run.runId)}`,
        () => [claim(db, "second")],
      );
      assert.deepEqual(late, []);
      assert.deepEqual(await claim(db, "third"), []);
    });

    await t.step(
      "a run that goes on is claimed by nobody; one that was left, at once",
      async () => {
        const run = await beginRun(db);
        assert.deepEqual(await claim(db, "other"), []);
        await releaseLease(db, { tenantId, runId: run.runId, epoch: 1 });
        const claimed = await claim(db, "other");
        assert.deepEqual(claimed.map(({ runId, epoch }) => [runId, epoch]), [[run.runId, 3]]);
      },
    );

    await t.step("nine claims without a finished step are one too many", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start]);
      const claims = async (count: number, from: number) => {
        const poisoned: boolean[] = [];
        for (let at = 0; at < count; at++) {
          await expire(db, run.runId);
          const [taken] = await claim(db, "other");
          assert.ok(taken);
          const { epoch } = taken;
          poisoned.push(taken.poisoned);
          const seq = from + at * 2;
          assert.equal(await commit(db, commitOf(run, { epoch, events: [delta(seq)] })), 1);
          const more = { epoch, events: [delta(seq + 1)], steps: [STEP] };
          assert.equal(await commit(db, commitOf(run, more)), 1);
        }
        return { poisoned, epoch: 1 + count };
      };
      const { poisoned, epoch } = await claims(7, 2);
      assert.deepEqual(poisoned, Array.from({ length: 7 }, () => false));
      const done = {
        epoch,
        follows: 15,
        events: [delta(20)],
        steps: [{ ...STEP, state: "done" as const }],
      };
      assert.equal(await commit(db, commitOf(run, done)), 1);
      const again = await claims(9, 21);
      assert.deepEqual(again.poisoned.indexOf(true), 8);
    });

    const notifying = async () => {
      const heard: string[] = [];
      const listening = openListenConnection(url, {
        onPayload: (payload) => heard.push(payload),
        onClosed() {},
      });
      await listening.ready;
      try {
        const run = await beginRun(db);
        await commit(db, commitOf(run, { events: [delta(1)] }));
        await commit(db, commitOf(run, { events: [delta(2)], steps: [STEP] }));
        await notify(db, { beat: true });
        // Notifications come in the order of their commits.
        await eventually(() => Promise.resolve(heard.length > 0 || null));
        assert.deepEqual(heard, ['{"beat":true}']);
      } finally {
        await listening.close();
      }
    };
    await t.step({
      name: "no write notifies anybody: that would cost most of the commits",
      ignore: !SWITCHES.notify,
      fn: notifying,
    });
  });
});
