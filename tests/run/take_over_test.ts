import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { HubError } from "../../src/core/error.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import type { Tool } from "../../src/core/tool.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import type { KeyPolicy } from "../../src/policy/key_policy.ts";
import { definitionHash } from "../../src/inference/definition_hash.ts";
import { OUTCOME_UNKNOWN } from "../../src/inference/resume.ts";
import { callTool } from "../../src/operations/call.ts";
import { LiveRuns } from "../../src/run/live_runs.ts";
import { stopDeserted } from "../../src/run/stop_run.ts";
import { takeOverAbandoned } from "../../src/run/take_over.ts";
import type { Database } from "../../src/store/database.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import { reserve } from "../../src/store/budgets.ts";
import { createKey } from "../../src/store/keys.ts";
import { readEvents, readRun, releaseLease } from "../../src/store/runs.ts";
import { insertModelCalls, readModelCalls } from "../../src/store/model_calls.ts";
import type { BegunCall } from "../../src/store/usage_rows.ts";
import { encodeUsageRow, insertUsage, type UsageRow } from "../../src/store/usage_rows.ts";
import { bookLostCalls } from "../../src/run/orphaned_call.ts";
import { type Answer, asks, makeTool, says, textResult } from "../inference/loop_rig.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { usageRow } from "../support/usage_rows.ts";
import { systemClock } from "../support/system_clock.ts";
import { beginRun, callRow, LEASE_MS, tenantId, write } from "./run_rig.ts";

/** A replica that finds one agent, and what it has done. */
function startReplica(db: Database, { answers = [], tools = [], policy = {}, ...hooks }: {
  answers?: Answer[];
  /** Called when the agent is prepared; gives what lets go of that. */
  prepare?(): () => void;
  tools?: Tool[];
  policy?: KeyPolicy;
} = {}) {
  const logged: string[] = [];
  const log: Log = {
    ...SILENT_LOG,
    warn: (message) => void logged.push(`warn ${message}`),
    error: (message) => void logged.push(`error ${message}`),
    with: () => log,
  };
  const live = new LiveRuns({ db, clock: systemClock, log, leaseMs: LEASE_MS });
  let left = 0;
  const usage: UsageRow[] = [];
  const ended: string[] = [];
  const agent = {
    settings: { name: "default", systemPrompt: "", maxSteps: 5, maxParallelTools: 4 },
    model: "smart",
    tools,
    callModel: () => (...call: Parameters<Answer>) =>
      (answers.shift() ?? assert.fail("no answer left"))(...call),
  };
  const prepare = () => {
    const release = hooks.prepare?.();
    return Promise.resolve({ ...agent, release: () => Promise.resolve(release?.()) });
  };
  const look = (mustStop?: () => boolean) =>
    takeOverAbandoned({
      start: {
        db,
        live,
        executeTool: (tool, input, context) => callTool(tool, input, { context }),
        clock: systemClock,
        ids: testIds,
        random: () => 0.5,
        log,
        owner: "this",
        leaseMs: LEASE_MS,
        policyOf: () => policy,
        approvalTimeoutMs: 60_000,
      },
      findAgent: () => ({ ...agent, prepare }),
      recordUsage: (row) => usage.push(row),
      onCommitted: (runId) => ended.push(runId),
      onLeft: () => void left++,
    }, mustStop);
  return { live, usage, ended, logged, look, left: () => left };
}

const uuid = (runId: string) => toUuid(runId as Id);

const expire = (db: Database, runId: string) =>
  db.control`update hub.runs set lease_until = now() - interval '1 second'
    where run_id = ${uuid(runId)}`;

const readLog = (db: Database, runId: string) =>
  readEvents(db, { tenantId, runId, afterSeq: 0, limit: 1000 });

/** A call that the owner of an epoch has sent in the run's first step. */
function callOf(
  run: { sessionId: string; runId: string },
  { isLogged, epoch = 1 }: { isLogged: boolean; epoch?: number },
): BegunCall {
  return {
    row: {
      ...usageRow(0),
      usageId: testIds.next("usg"),
      tenantId,
      keyId: testIds.next("key"),
      sessionId: run.sessionId,
      runId: run.runId,
      step: 0,
      kind: "run",
      provider: "second",
      model: "of-the-call",
      publicModel: "smart",
      streamed: true,
      outcome: "cut",
      status: null,
      errorCode: "orphaned",
      usage: { ...NO_USAGE, promptTokens: 40, totalTokens: 40 },
      estimated: true,
      costMicros: 80,
      bytesOut: 0,
    },
    epoch,
    price: { inputPerMillion: 2, outputPerMillion: 10 },
    isLogged,
  };
}

const HALF: HubEvent[] = [
  { type: "step-start", step: 0 },
  { type: "text-start", id: "p0" },
  { type: "text-delta", id: "p0", delta: "Half" },
];

Deno.test("taking runs over", async (t) => {
  await withDatabase(async (db) => {
    await t.step(
      "a step in flight begins again, behind all numbers that may be known",
      async () => {
        const run = await beginRun(db);
        await write(db, run, [run.start, ...HALF]);
        await expire(db, run.runId);
        const replica = startReplica(db, { answers: [says("Whole")] });
        assert.equal(await replica.look(), 1);
        await replica.live.get(run.runId)?.done;
        assert.deepEqual(replica.usage, [], "no call is known to have been sent");
        const log = await readLog(db, run.runId);
        assert.deepEqual(checkLog(log), []);
        const reset = log.find(({ event }) => event.type === "step-reset");
        assert.equal(reset?.seq, 4097);
        assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.status, "completed");
      },
    );

    await t.step("calls of a lost replica are booked as they were sent", async () => {
      const run = await beginRun(db);
      const early = callOf(run, { isLogged: true });
      const late = callOf(run, { isLogged: true });
      const summary = callOf(run, { isLogged: false });
      const own = callOf(run, { isLogged: true, epoch: 2 });
      await write(db, run, [run.start, ...HALF], { calls: [early, late, summary] });
      await insertModelCalls(db, [late, own]);
      await expire(db, run.runId);
      const replica = startReplica(db, { answers: [says("Whole")] });
      assert.equal(await replica.look(), 1);
      await replica.live.get(run.runId)?.done;
      assert.deepEqual(
        replica.usage,
        [early, late, summary].map(({ row }) => {
          // "Half" is a token, of the call that the log has the answer of.
          const completionTokens = row === late.row ? 1 : 0;
          const usage = { ...row.usage, completionTokens, totalTokens: 40 + completionTokens };
          return { ...row, usage, costMicros: 40 * 2 + completionTokens * 10 };
        }),
      );
      await insertUsage(db, replica.usage.map(encodeUsageRow));
      const left = await readModelCalls(db, { tenantId, runId: run.runId, epoch: 9 });
      assert.deepEqual(left, [own]);
    });

    await t.step("calls that no takeover has booked are booked a minute later", async () => {
      const run = await beginRun(db);
      const calls = [1, 2].map(() => callOf(run, { isLogged: true }));
      await write(db, run, [run.start, ...HALF], { calls });
      const rows: UsageRow[] = [];
      const look = () => bookLostCalls(db, (row) => void rows.push(row));
      const age = () =>
        db.control`update hub.model_calls set began_at = now() - interval '2 minutes'
          where run_id = ${uuid(run.runId)}`;
      await age();
      assert.equal(await look(), 0, "their owner drives the run");
      await db.control`update hub.runs set lease_epoch = 2 where run_id = ${uuid(run.runId)}`;
      assert.equal(await look(), 2);
      assert.deepEqual(
        rows.map(({ usageId }) => usageId).sort(),
        calls.map(({ row }) => row.usageId).sort(),
      );
      await insertUsage(db, rows.map(encodeUsageRow));
      assert.equal(await look(), 0);
      await db.control`update hub.runs set status = 'failed' where run_id = ${uuid(run.runId)}`;
    });

    await t.step(
      "the call of a lost replica settles its reservation, where there is one",
      async () => {
        const windows = [{ id: "total", path: ["budgets", "total"] }];
        const policy = { budgets: { total: { hardMicros: 1000 } } };
        for (const reserved of [true, false]) {
          const caller = { keyId: testIds.next("key"), requestId: testIds.next("req") };
          const run = await beginRun(db, { caller });
          await write(db, run, [run.start, ...HALF]);
          await expire(db, run.runId);
          const usageId = testIds.next("usg");
          if (reserved) {
            await createKey(db, {
              tenantId,
              keyId: caller.keyId,
              name: "k",
              role: "user",
              lookupId: caller.keyId.slice(-16),
              hash: new Uint8Array(32),
              policy,
            });
            const wish = {
              tenantId,
              ...caller,
              usageId,
              amountMicros: 500,
              leaseMs: 60_000,
              windows,
            };
            assert.ok((await reserve(db, wish)).fits);
          }
          const replica = startReplica(db, { answers: [says("Whole")], policy });
          assert.equal(await replica.look(), 1);
          await replica.live.get(run.runId)?.done;
          const booked = replica.usage.map((row) => [
            row.usageId,
            row.keyId,
            row.requestId,
            row.budgetWindows,
          ]);
          const { keyId, requestId } = caller;
          assert.deepEqual(booked, reserved ? [[usageId, keyId, requestId, ["total"]]] : []);
        }
      },
    );

    await t.step("who lets a run go has booked its call, and who is lost has not", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start, ...HALF]);
      const key = { tenantId, runId: run.runId };
      const let1 = startReplica(db);
      await expire(db, run.runId);
      assert.equal(await let1.look(() => true), 1);
      const let2 = startReplica(db);
      assert.equal(await let2.look(() => true), 1);
      // Both let go of what a third had lost.
      const { epoch } = await readRun(db, key) ?? assert.fail("no run");
      const [claim] = await claimAbandoned(db, { owner: "x", leaseMs: LEASE_MS, limit: 1 });
      assert.deepEqual([claim?.runId, claim?.epoch, claim?.lost], [run.runId, epoch + 1, true]);
      await releaseLease(db, { ...key, epoch: epoch + 1 });
      const replica = startReplica(db, { answers: [says("Whole")] });
      assert.equal(await replica.look(), 1);
      await replica.live.get(run.runId)?.done;
      assert.deepEqual(replica.usage, []);
    });

    await t.step("a replica that freezes between claim and look lets go of the run", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start, ...HALF]);
      await expire(db, run.runId);
      // The claim is the first statement, or stands behind a look of its own.
      let untilFrozen = db.skipLocked ? 1 : 2;
      const freezing: Database = {
        ...db,
        async within<T>(query: PromiseLike<T>): Promise<T> {
          const answer = await db.within(query);
          if (--untilFrozen === 0) {
            await expire(db, run.runId);
            const options = { owner: "other", leaseMs: LEASE_MS, limit: 1 };
            assert.equal((await claimAbandoned(db, options))[0]?.epoch, 3);
          }
          return answer;
        },
      };
      const replica = startReplica(freezing);
      assert.equal(await replica.look(), 1);
      assert.equal(replica.live.size, 0);
      assert.equal((await readLog(db, run.runId)).length, 4);
      assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.epoch, 3);
      assert.deepEqual(replica.usage, []);
    });

    await t.step("a run that kills its replicas is ended", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start, ...HALF]);
      await db.control`update hub.runs set attempts = 8 where run_id = ${uuid(run.runId)}`;
      await expire(db, run.runId);
      const replica = startReplica(db);
      assert.equal(await replica.look(), 1);
      assert.equal(replica.live.size, 0);
      assert.deepEqual(replica.ended, [run.runId]);
      const stored = await readRun(db, { tenantId, runId: run.runId });
      assert.deepEqual([stored?.status, stored?.error?.["code"]], ["failed", "interrupted"]);
      assert.deepEqual(checkLog(await readLog(db, run.runId)), []);
    });

    await t.step("a run whose answer cannot be held to its schema here is ended", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start, ...HALF]);
      const format = { schema: { type: "object", unevaluatedProperties: false } };
      await db.control`update hub.runs set answer_format = ${db.control.json(format)}::jsonb
        where run_id = ${uuid(run.runId)}`;
      await expire(db, run.runId);
      const replica = startReplica(db);
      assert.equal(await replica.look(), 1);
      assert.deepEqual(replica.ended, [run.runId]);
      const stored = await readRun(db, { tenantId, runId: run.runId });
      assert.deepEqual([stored?.status, stored?.error?.["code"]], ["failed", "interrupted"]);
    });

    await t.step("a run that was asked for by one that is given up is stopped", async () => {
      const boss = await beginRun(db);
      const call = callRow(testIds.next("call"), { effect: "idempotent" });
      const { toolCallId, toolName } = call;
      await write(db, boss, [
        boss.start,
        { type: "step-start", step: 0 },
        { type: "tool-input-available", toolCallId, toolName, input: {} },
        { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
      ], { toolCalls: [call] });
      const child = await beginRun(db, { parent: { runId: boss.runId, toolCallId } });
      await write(db, child, [child.start]);
      await expire(db, child.runId);
      const begun = Promise.withResolvers<void>();
      const stalls: Answer = async function* (_, { signal }) {
        yield [{ type: "text-delta", delta: "Half" }];
        begun.resolve();
        await new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason), { once: true })
        );
      };
      const replica = startReplica(db, { answers: [stalls] });
      const stop = {
        follow: { db, live: replica.live },
        onRequestElsewhere: () => assert.fail("it is driven here"),
        onClaimable: () => assert.fail("it does not wait"),
      };
      assert.equal(await replica.look(), 1);
      await begun.promise;
      assert.equal(await stopDeserted(stop), 0);
      await db.control`update hub.runs set attempts = 8 where run_id = ${uuid(boss.runId)}`;
      await expire(db, boss.runId);
      const ended = replica.live.get(child.runId)?.done;
      assert.equal(await replica.look(), 1);
      assert.equal(await stopDeserted(stop), 1);
      await ended;
      const stored = await readRun(db, { tenantId, runId: child.runId });
      assert.equal(stored?.status, "cancelled");
      assert.deepEqual(checkLog(await readLog(db, child.runId)), []);
      assert.equal(await stopDeserted(stop), 0);
    });

    await t.step("a Postgres that goes away meanwhile leaves no agent prepared", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start, ...HALF]);
      await expire(db, run.runId);
      let [isAway, prepared, released] = [false, 0, 0];
      const failing: Database = {
        ...db,
        within: (query) =>
          isAway ? Promise.reject(new HubError("database_unavailable", "away")) : db.within(query),
      };
      const replica = startReplica(failing, {
        answers: [says("Whole")],
        prepare() {
          prepared++;
          isAway = true;
          return () => void released++;
        },
      });
      await replica.look();
      isAway = false;
      const driven = replica.live.get(run.runId);
      assert.deepEqual([prepared, released], [1, driven === undefined ? 1 : 0]);
      await driven?.done;
      assert.deepEqual([prepared, released], [1, 1]);
    });

    await t.step(
      "one that fails since Postgres goes away is no error: the next look takes it",
      async () => {
        const run = await beginRun(db);
        await write(db, run, [run.start, ...HALF]);
        await expire(db, run.runId);
        let asked = 0;
        // Runs that are claimed one by one are listed first.
        const claims = db.skipLocked ? 1 : 2;
        const away = () => Promise.reject(new HubError("database_unavailable", "away"));
        const failing: Database = {
          ...db,
          within: (query) => ++asked > claims ? away() : db.within(query),
        };
        const replica = startReplica(failing);
        await replica.look();
        assert.deepEqual(replica.logged, ["warn A run could not be taken over"]);
        await expire(db, run.runId);
        const next = startReplica(db, { answers: [says("Whole")] });
        assert.equal(await next.look(), 1);
        await next.live.get(run.runId)?.done;
        assert.deepEqual(next.logged, ["warn Took a run over"]);
      },
    );

    await t.step("a replica that stops while it looks leaves what it has claimed", async () => {
      const run = await beginRun(db);
      await write(db, run, [run.start, ...HALF]);
      await expire(db, run.runId);
      const replica = startReplica(db);
      assert.equal(await replica.look(() => true), 1);
      assert.deepEqual([replica.live.size, replica.left(), replica.usage.length], [0, 1, 0]);
      assert.equal((await readLog(db, run.runId)).length, 4);
      const next = startReplica(db, { answers: [says("Whole")] });
      assert.equal(await next.look(), 1);
      await next.live.get(run.runId)?.done;
    });

    await t.step("one look takes all that were left, however many", async () => {
      const runs = await Promise.all(Array.from({ length: 45 }, () => beginRun(db)));
      await db.control`update hub.runs set lease_until = null where lease_owner = 'test'`;
      const answers = runs.map(() => says("Done"));
      const replica = startReplica(db, { answers });
      assert.equal(await replica.look(), 45);
      await Promise.all(runs.map(({ runId }) => replica.live.get(runId)?.done));
      assert.equal(answers.length, 0);
    });

    await t.step(
      "a tool runs once its start stands in the journal, after a takeover too",
      async () => {
        const run = await beginRun(db);
        const row = callRow(testIds.next("call"), { toolName: "test.act", state: "ready" });
        const { toolCallId } = row;
        await write(db, run, [
          run.start,
          { type: "step-start", step: 0 },
          { type: "tool-input-available", toolCallId, toolName: "test.act", input: {} },
          { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
        ], { toolCalls: [row] });
        await expire(db, run.runId);
        const journal: unknown[] = [];
        const act = makeTool("test.act", async (_, { toolCallId }) => {
          const [call] = await db.read`select state, epoch::int from hub.tool_calls
          where tool_call_id = ${uuid(toolCallId)}`;
          journal.push({ ...call });
          return textResult("done");
        });
        const answers = [asks(["test_act", {}]), says("Done")];
        const replica = startReplica(db, { answers, tools: [act] });
        assert.equal(await replica.look(), 1);
        await replica.live.get(run.runId)?.done;
        const started = { state: "started", epoch: 2 };
        assert.deepEqual(journal, [started, started]);
        assert.deepEqual(checkLog(await readLog(db, run.runId)), []);
        assert.deepEqual(replica.usage, []);
      },
    );

    await t.step("a call that began is made again by the tool of its journal alone", async () => {
      const run = await beginRun(db);
      let ran = 0;
      const tool = (name: string, description: string) =>
        makeTool(name, () => {
          ran++;
          return textResult("done");
        }, { effect: "idempotent", description });
      const same = tool("test.same", "Puts");
      const tools = [same, tool("test.other", "Puts away")];
      const rows = [same, tool("test.other", "Puts")].map((tool, index) =>
        callRow(testIds.next("call"), {
          ...{ toolName: tool.name, index, effect: "idempotent", outside: "file" },
          defHash: definitionHash(tool),
        })
      );
      await write(db, run, [
        run.start,
        { type: "step-start", step: 0 },
        ...rows.map(({ toolCallId, toolName }) => ({
          ...{ type: "tool-input-available" as const, toolCallId, toolName, input: {} },
        })),
        { type: "step-finish", step: 0, finishReason: "tool-calls", usage: NO_USAGE },
      ], { toolCalls: rows });
      await expire(db, run.runId);
      const replica = startReplica(db, { answers: [says("Done")], tools });
      assert.equal(await replica.look(), 1);
      await replica.live.get(run.runId)?.done;
      const journal = await db.read`select state, error_text, outside from hub.tool_calls
        where run_id = ${uuid(run.runId)} order by idx`;
      const [first, second] = journal.map((row) => ({ ...row }));
      assert.deepEqual(first, { state: "succeeded", error_text: null, outside: "file" });
      const doubt = { state: "unknown", error_text: OUTCOME_UNKNOWN, outside: "file" };
      assert.deepEqual([second, ran], [doubt, 1]);
    });
  });
});
