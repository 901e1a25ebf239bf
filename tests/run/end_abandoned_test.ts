import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import { toUuid } from "../../src/core/id.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { ToolEffect } from "../../src/core/tool.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { OUTCOME_UNKNOWN } from "../../src/inference/resume.ts";
import { endAbandoned } from "../../src/run/end_abandoned.ts";
import type { Database } from "../../src/store/database.ts";
import { readMessage } from "../../src/store/messages.ts";
import { claimAbandoned } from "../../src/store/claim_runs.ts";
import { readEvents, readRun } from "../../src/store/runs.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { beginRun, callRow, tenantId, write } from "./run_rig.ts";

const usage = { ...NO_USAGE, promptTokens: 3, totalTokens: 3 };

/** The whole log of the run and the message that is stored of it. */
async function outcome(db: Database, run: { runId: string; messageId: string }) {
  const log = await readEvents(db, { tenantId, runId: run.runId, afterSeq: 0, limit: 1000 });
  const fold = createFold();
  for (const { event } of log) fold.apply(event);
  const message = await readMessage(db, { tenantId, messageId: run.messageId });
  return { log, folded: fold.message(), message };
}

Deno.test("runs whose replica was lost and that cannot go on", async (t) => {
  await withDatabase(async (db) => {
    /** Claims what was lost and ends it; gives the number of runs. */
    const end = async () => {
      const claimed = await claimAbandoned(db, { owner: "other", leaseMs: 15_000, limit: 100 });
      const why = { code: "interrupted", errorText: "The run cannot go on here" };
      for (const key of claimed) {
        await endAbandoned(db, key, { leaseMs: 15_000, log: SILENT_LOG, why });
      }
      return claimed.length;
    };
    /** The lease has run out by the database's own clock. */
    const lose = (runId: string) =>
      db.control`update hub.runs set lease_until = now() - interval '1 second'
        where run_id = ${toUuid(runId as "run_")}`;

    await t.step("the message is what the log says, though no part was stored", async () => {
      const run = await beginRun(db);
      await write(db, run, [
        run.start,
        { type: "step-start", step: 0 },
        { type: "text-start", id: "p0" },
        { type: "text-delta", id: "p0", delta: "Let me " },
        { type: "text-delta", id: "p0", delta: "see" },
        { type: "text-end", id: "p0" },
        { type: "step-finish", step: 0, finishReason: "stop", usage },
      ]);
      await lose(run.runId);
      assert.equal(await end(), 1);
      const { log, folded, message } = await outcome(db, run);
      assert.deepEqual(checkLog(log), []);
      assert.deepEqual(message?.parts, folded.parts);
      assert.equal(message?.parts.length, 2);
    });

    await t.step("parts of a step that was reset are void, stored or not", async () => {
      const run = await beginRun(db);
      const part = { type: "text" as const, id: "p1", text: "x", state: "done" as const };
      await write(db, run, [
        run.start,
        { type: "step-start", step: 0 },
        { type: "text-start", id: "p0" },
        { type: "text-delta", id: "p0", delta: "Half" },
        { type: "text-end", id: "p0" },
        { type: "tool-input-error", toolCallId: "c", toolName: "t", input: "", errorText: "" },
      ], { parts: [{ index: 1, part }, { index: 2, part }] });
      await lose(run.runId);
      assert.equal(await end(), 1);
      const { log, folded, message } = await outcome(db, run);
      assert.deepEqual(checkLog(log), []);
      assert.deepEqual(message?.parts, [{ type: "step-start", step: 0 }]);
      assert.deepEqual(message?.parts, folded.parts);
    });

    await t.step("open calls of the journal get the verdict for interrupted calls", async () => {
      const run = await beginRun(db);
      const cases: [state: string, effect: ToolEffect, verdict: string][] = [
        ["started", "effect", "unknown"],
        ["started", "idempotent", "unknown"],
        ["started", "pure", "cancelled"],
        ["ready", "effect", "cancelled"],
        ["awaiting_approval", "effect", "cancelled"],
        ["succeeded", "effect", "succeeded"],
      ];
      const calls = cases.map(([state, effect], index) =>
        callRow(testIds.next("call"), { state, effect, index })
      );
      const input = calls.map(({ toolCallId }): HubEvent => ({
        type: "tool-input-available",
        toolCallId,
        toolName: "test.tool",
        input: {},
      }));
      const done = calls[5]?.toolCallId ?? "";
      await write(db, run, [
        run.start,
        { type: "step-start", step: 0 },
        ...input,
        { type: "step-finish", step: 0, finishReason: "tool-calls", usage },
        { type: "tool-output-available", toolCallId: done, output: "ok" },
      ], { toolCalls: calls });
      await lose(run.runId);
      assert.equal(await end(), 1);
      const rows = await db
        .read`select state, error_text, finished_at is not null as finished, epoch::int
        from hub.tool_calls where run_id = ${toUuid(run.runId)} order by idx`;
      assert.deepEqual(rows.map((row) => row["state"]), cases.map(([, , verdict]) => verdict));
      assert.ok(rows.every((row) => row["finished"]));
      assert.deepEqual(rows.map((row) => row["epoch"]), [2, 2, 2, 2, 2, 1]);
      const { log, folded, message } = await outcome(db, run);
      assert.deepEqual(checkLog(log), []);
      assert.deepEqual(message?.parts, folded.parts);
      const texts = message?.parts.flatMap((part) => part.type === "tool" ? [part.errorText] : []);
      const interrupted = "interrupted";
      assert.deepEqual(texts, [
        OUTCOME_UNKNOWN,
        OUTCOME_UNKNOWN,
        interrupted,
        interrupted,
        interrupted,
        undefined,
      ]);
      assert.deepEqual(rows.map((row) => row["error_text"]).slice(0, 5), texts?.slice(0, 5));
      assert.equal((await readRun(db, { tenantId, runId: run.runId }))?.status, "failed");
    });

    await t.step("a step that was under way ends with its run", async () => {
      const run = await beginRun(db);
      await write(db, run, [
        run.start,
        { type: "step-start", step: 0 },
        { type: "step-finish", step: 0, finishReason: "tool-calls", usage },
        { type: "step-start", step: 1 },
      ], {
        steps: [
          { step: 0, state: "done", attempt: 1, usage, finishReason: "tool-calls" },
          { step: 1, state: "started", attempt: 2 },
        ],
      });
      await lose(run.runId);
      assert.equal(await end(), 1);
      const rows = await db.read`
        select state, attempt, finish_reason, usage ->> 'totalTokens' as tokens, epoch::int,
          finished_at is not null as finished
        from hub.steps where run_id = ${toUuid(run.runId)} order by step`;
      const done = { state: "done", finished: true };
      assert.deepEqual(rows.map((row) => ({ ...row })), [
        { ...done, attempt: 1, finish_reason: "tool-calls", tokens: "3", epoch: 1 },
        { ...done, attempt: 2, finish_reason: "error", tokens: "0", epoch: 2 },
      ]);
      const [row] = await db.read`select attempts from hub.runs where run_id = ${
        toUuid(run.runId)
      }`;
      assert.equal(row?.["attempts"], 1);
    });
  });
});
