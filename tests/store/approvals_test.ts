import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { pruneGrants } from "../../src/store/approval_grants.ts";
import {
  answerApproval,
  listApprovals,
  listDueApprovals,
  listRunApprovals,
  readApproval,
} from "../../src/store/approvals.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import type { Database } from "../../src/store/database.ts";
import { readRun, releaseLease, requestStop } from "../../src/store/runs.ts";
import { addSteering } from "../../src/store/steering.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { beginRun, callRow, LEASE_MS, tenantId, write } from "../run/run_rig.ts";

const STEP: HubEvent[] = [
  { type: "step-start", step: 0 },
  { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
];
const answer = (state: "approved" | "denied", reason: string | null = null) => ({
  state,
  reason,
  decidedBy: null,
  grant: null,
});

/** A run that has asked for some calls, and waits unless `pause` is false. */
async function asking(
  db: Database,
  { count = 1, timeoutMs = 600_000, pause = true } = {},
) {
  const run = await beginRun(db);
  const calls = Array.from(
    { length: count },
    () => ({ approvalId: testIds.next("apr"), toolCallId: testIds.next("call") }),
  );
  await write(db, run, [run.start, ...STEP], {
    steps: [{ step: 0, state: "done", attempt: 1 }],
    toolCalls: calls.map(({ toolCallId }, index) =>
      callRow(toolCallId, { index, state: "awaiting_approval", input: { index } })
    ),
    approvals: calls.map((call) => ({
      ...call,
      toolName: "test.tool",
      argsHash: "a",
      defHash: "d",
      risk: "high",
      tier: "ask",
      tainted: [],
      preview: null,
      shownState: null,
      timeoutMs,
    })),
    ...(pause ? { pause: { decisions: 0, costMicros: 7 } } : {}),
  });
  const keys = calls.map(({ approvalId }) => ({ tenantId, runId: run.runId, approvalId }));
  const [key] = keys;
  assert.ok(key);
  return { ...run, keys, key };
}

const statusOf = async (db: Database, run: { runId: string }) => {
  const { status, costMicros } = await readRun(db, { tenantId, runId: run.runId }) ??
    assert.fail("gone");
  return [status, costMicros];
};
/** Lets the time of a question be over. */
const makeDue = (db: Database, { approvalId }: { approvalId: string }) =>
  db.within(db.control`update hub.approvals set expires_at = now() - interval '1 ms'
    where tenant_id = ${tenantId} and approval_id = ${toUuid(approvalId as Id)}`);
const claim = async (db: Database, run: { runId: string }) =>
  (await claimAbandoned(db, { owner: "next", leaseMs: LEASE_MS, limit: 100 }))
    .find(({ runId }) => runId === run.runId);

Deno.test("questions are answered in the database", async (t) => {
  await withDatabase(async (db) => {
    await t.step("of fifty answers at once one counts, and the run is anybody's then", async () => {
      for (let round = 0; round < 5; round++) {
        const run = await asking(db);
        assert.deepEqual(await statusOf(db, run), ["waiting", 7]);
        assert.equal(await claim(db, run), undefined, "nobody takes what waits");
        const said = await Promise.all(Array.from({ length: 50 }, (_, at) => {
          const state = at % 2 === 0 ? "approved" as const : "denied" as const;
          return answerApproval(db, run.key, answer(state, `by ${at}`));
        }));
        assert.equal(said.filter(Boolean).length, 1);
        const at = said.indexOf(true);
        const row = await readApproval(db, run.key);
        assert.deepEqual(
          [row?.state, row?.reason],
          [at % 2 === 0 ? "approved" : "denied", `by ${at}`],
        );
        assert.deepEqual(await statusOf(db, run), ["queued", 7]);
        const claimed = await claim(db, run);
        assert.deepEqual([claimed?.epoch, claimed?.poisoned], [2, false]);
      }
    });

    await t.step("an answer and the end of its time: one of them, by Postgres' clock", async () => {
      for (let round = 0; round < 10; round++) {
        const run = await asking(db);
        const said = answerApproval(db, run.key, answer("approved"));
        const due = makeDue(db, run.key);
        const late = Array.from(
          { length: 4 },
          () => answerApproval(db, run.key, { state: "expired" }),
        );
        const [isAnswered, , ...expired] = await Promise.all([said, due, ...late]);
        const isExpired = expired.some(Boolean) ||
          (!isAnswered && await answerApproval(db, run.key, { state: "expired" }));
        assert.equal([isAnswered, isExpired].filter(Boolean).length, 1);
        assert.ok(expired.filter(Boolean).length <= 1);
        const state = (await readApproval(db, run.key))?.state;
        assert.equal(state, isAnswered ? "approved" : "expired");
        assert.equal((await statusOf(db, run))[0], "queued");
      }
    });

    await t.step("grants whose time is over are dropped, and no others", async () => {
      const grantsOf = () =>
        db.within(
          db.control<{ id: string }[]>`select grant_id::text as id from hub.approval_grants`,
        );
      const kept: string[] = [];
      for (const seconds of [0, 0, 3600, null]) {
        const run = await asking(db);
        const grantId = testIds.next("grt");
        const grant = { grantId, remember: "session" as const, seconds };
        assert.ok(await answerApproval(db, run.key, { ...answer("approved"), grant }));
        if (seconds !== 0) kept.push(toUuid(grantId));
      }
      assert.equal((await grantsOf()).length, 4);
      assert.equal(await pruneGrants(db), 2);
      assert.deepEqual((await grantsOf()).map(({ id }) => id).sort(), kept.sort());
      assert.equal(await pruneGrants(db), 0);
      const plan = await db.control.begin(async (tx) => {
        await tx`set local enable_seqscan = off`;
        return await tx`explain select 1 from hub.approval_grants where expires_at <= now() limit 10`;
      });
      assert.match(JSON.stringify(plan), /approval_grants_expiry/);
    });

    await t.step("nothing expires early, and nothing is answered late", async () => {
      const run = await asking(db);
      assert.equal(await answerApproval(db, run.key, { state: "expired" }), false);
      assert.deepEqual(await listDueApprovals(db), []);
      await makeDue(db, run.key);
      assert.deepEqual(await listDueApprovals(db), [run.key]);
      assert.equal(await answerApproval(db, run.key, answer("approved")), false);
      assert.equal((await readApproval(db, run.key))?.state, "expired");
      assert.equal((await statusOf(db, run))[0], "waiting");
      assert.equal(await answerApproval(db, run.key, { state: "expired" }), true);
      assert.equal((await statusOf(db, run))[0], "queued");
      assert.deepEqual(await listDueApprovals(db), []);
    });

    await t.step("an answer that comes before the run waits is not slept through", async () => {
      const run = await asking(db, { pause: false, count: 2 });
      assert.equal(await answerApproval(db, run.key, answer("approved")), true);
      assert.equal((await statusOf(db, run))[0], "running");
      await write(db, run, [], { after: 3, pause: { decisions: 0, costMicros: null } });
      assert.equal((await statusOf(db, run))[0], "queued");
      const claimed = await claim(db, run);
      assert.equal(claimed?.epoch, 2);
      const next = { after: 3, epoch: 2, pause: { decisions: 1, costMicros: null } };
      await write(db, run, [], next);
      assert.equal((await statusOf(db, run))[0], "waiting");
    });

    await t.step("waits and answers at the same moment lose no run", async () => {
      for (let round = 0; round < 20; round++) {
        const run = await asking(db, { pause: false });
        await Promise.all([
          answerApproval(db, run.key, answer("denied")),
          write(db, run, [], { after: 3, pause: { decisions: 0, costMicros: null } }),
        ]);
        assert.equal((await statusOf(db, run))[0], "queued");
      }
    });

    await t.step("a stop ends what waits, and no answer comes behind it", async () => {
      for (let round = 0; round < 10; round++) {
        const run = await asking(db);
        const [stopped, isAnswered] = await Promise.all([
          requestStop(db, run),
          answerApproval(db, run.key, answer("approved")),
        ]);
        assert.equal(stopped?.stopped, true);
        const state = (await readApproval(db, run.key))?.state;
        assert.equal(state, isAnswered ? "approved" : "cancelled");
        assert.equal(await answerApproval(db, run.key, answer("approved")), false);
        assert.equal((await statusOf(db, run))[0], "queued");
        assert.ok(await claim(db, run));
      }
      const run = await asking(db, { pause: false });
      await requestStop(db, run);
      await write(db, run, [], { after: 3, pause: { decisions: 0, costMicros: null } });
      assert.equal((await statusOf(db, run))[0], "queued", "it does not wait once it was stopped");
    });

    await t.step("an answer comes behind no stop", async () => {
      const run = await asking(db);
      await requestStop(db, run);
      // As one that was asked while the stop waited for the run's row.
      await db.control`update hub.approvals set state = 'pending'
        where tenant_id = ${tenantId} and approval_id = ${toUuid(run.key.approvalId)}`;
      assert.equal(await answerApproval(db, run.key, answer("approved")), false);
      assert.equal((await readApproval(db, run.key))?.state, "cancelled");
    });

    await t.step("waiting is no failure, however often", async () => {
      const run = await asking(db, { count: 20 });
      for (const [at, key] of run.keys.entries()) {
        assert.equal(await answerApproval(db, key, answer("approved")), true);
        const claimed = await claim(db, run);
        assert.deepEqual([claimed?.epoch, claimed?.poisoned], [at + 2, false]);
        const pause = { decisions: at + 1, costMicros: null };
        await write(db, run, [], { after: 3, epoch: at + 2, pause });
      }
      const [row] = await db.read`select attempts from hub.runs
        where tenant_id = ${tenantId} and run_id = ${toUuid(run.runId as Id)}`;
      assert.equal(row?.["attempts"], 0);
    });

    await t.step("whoever let the run wait has no right on it any more", async () => {
      const run = await asking(db);
      await assert.rejects(write(db, run, STEP, { after: 3 }));
      await releaseLease(db, { tenantId, runId: run.runId, epoch: 1 });
      assert.equal((await statusOf(db, run))[0], "waiting");
    });

    await t.step("what is said to a run that waits is kept", async () => {
      const run = await asking(db);
      const steeringId = testIds.next("steer");
      const said = await addSteering(db, {
        tenantId,
        runId: run.runId,
        steeringId,
        kind: "steer",
        text: "Hurry",
        clientId: null,
      });
      assert.equal(said.kind, "said");
      assert.equal((await statusOf(db, run))[0], "waiting");
    });

    await t.step("questions are listed with what was asked, by state and by pages", async () => {
      const run = await asking(db, { count: 3 });
      const [first, second, third] = run.keys;
      assert.ok(first && second && third);
      await answerApproval(db, first, answer("denied", "no"));
      const listed = await listRunApprovals(db, run);
      assert.deepEqual(
        listed.map(({ approvalId, state, input }) => [approvalId, state, input]),
        [
          [first.approvalId, "denied", { index: 0 }],
          [second.approvalId, "pending", { index: 1 }],
          [third.approvalId, "pending", { index: 2 }],
        ],
      );
      const page = await listApprovals(db, { tenantId, state: "pending", limit: 1, after: null });
      assert.deepEqual(page.approvals.map(({ approvalId }) => approvalId), [third.approvalId]);
      const next = await listApprovals(db, {
        tenantId,
        state: "pending",
        limit: 1,
        after: page.nextCursor,
      });
      assert.deepEqual(next.approvals.map(({ approvalId }) => approvalId), [second.approvalId]);
      const shown = await db.read`select approval from hub.pending_approvals
        where run = ${run.runId} order by approval`;
      assert.deepEqual(
        shown.map(({ approval }) => approval),
        [second.approvalId, third.approvalId],
      );
      await requestStop(db, run);
      const closed = await listRunApprovals(db, run);
      assert.deepEqual(closed.map(({ state }) => state), ["denied", "cancelled", "cancelled"]);
      const other = { tenantId, runId: testIds.next("run"), approvalId: second.approvalId };
      assert.equal(await readApproval(db, other), null);
      assert.equal(await answerApproval(db, other, answer("approved")), false);
    });
  });
});
