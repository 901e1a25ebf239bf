import assert from "node:assert/strict";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { QuestionState } from "../../src/core/run_question.ts";
import type { Database } from "../../src/store/database.ts";
import {
  answerQuestion,
  expireQuestions,
  listRunQuestions,
  type QuestionKey,
  readAnswers,
  readQuestion,
} from "../../src/store/questions.ts";
import { requestStop } from "../../src/store/runs.ts";
import { testIds, withDatabase } from "../support/postgres.ts";
import { beginRun, callRow, tenantId, write } from "../run/run_rig.ts";

const ELSEWHERE = "00000000-0000-0000-0000-00000000000f";
const SEALED = {
  masterKeyId: "0123456789abcdef",
  nonce: new Uint8Array([1, 2, 3]),
  ciphertext: new Uint8Array([4, 5, 6]),
};
const given = (state: "answered" | "declined") => ({
  state,
  decidedBy: null,
  content: state === "answered" ? SEALED : null,
});

/** A run with a call that has asked something. */
async function asking(db: Database, { timeoutMs = 600_000 } = {}) {
  const run = await beginRun(db);
  const toolCallId = testIds.next("call");
  const questionId = testIds.next("qst");
  const row = (state: QuestionState) => ({
    questionId,
    toolCallId,
    source: "peer",
    kind: "form",
    message: "Which?",
    asked: { schema: { type: "object" } },
    state,
    timeoutMs,
  });
  await write(db, run, [run.start], {
    toolCalls: [callRow(toolCallId, { index: 0, state: "started", input: {} })],
    questions: [row("pending")],
  });
  const key: QuestionKey = { tenantId, runId: run.runId, questionId };
  const close = (state: QuestionState) =>
    write(db, run, [{ type: "data", name: "note", data: state }], {
      after: 1,
      questions: [row(state)],
    });
  return { key, close };
}

const stateOf = async (db: Database, key: QuestionKey) => (await readQuestion(db, key))?.state;

Deno.test("questions of tools are answered in the database", async (t) => {
  await withDatabase(async (db) => {
    await t.step(
      "of twenty answers at once one counts, and its words go with the log's",
      async () => {
        const { key, close } = await asking(db);
        assert.equal(await stateOf(db, key), "pending");
        assert.equal((await readAnswers(db, [key])).size, 0);
        const all = await Promise.all(
          Array.from({ length: 20 }, () => answerQuestion(db, key, given("answered"))),
        );
        assert.equal(all.filter(Boolean).length, 1);
        const taken = (await readAnswers(db, [key])).get(key.questionId);
        assert.deepEqual(taken, { state: "answered", content: SEALED });
        await close("answered");
        const after = (await readAnswers(db, [key])).get(key.questionId);
        assert.deepEqual(after, { state: "answered", content: null });
        assert.equal(await answerQuestion(db, key, given("declined")), false);
      },
    );

    await t.step("nobody of another tenant sees or answers it", async () => {
      const { key } = await asking(db);
      const others = { ...key, tenantId: ELSEWHERE };
      assert.equal(await readQuestion(db, others), null);
      assert.deepEqual(await listRunQuestions(db, others), []);
      assert.equal(await answerQuestion(db, others, given("answered")), false);
      const run = await beginRun(db);
      assert.equal(
        await answerQuestion(db, { ...key, runId: run.runId }, given("answered")),
        false,
      );
      assert.equal(await stateOf(db, key), "pending");
    });

    await t.step("Postgres' clock says when its time is over", async () => {
      const { key } = await asking(db);
      await expireQuestions(db, [key]);
      assert.equal(await stateOf(db, key), "pending");
      await db.within(db.control`update hub.questions set expires_at = now() - interval '1 ms'
        where tenant_id = ${tenantId} and question_id = ${toUuid(key.questionId as Id)}`);
      assert.equal(await stateOf(db, key), "expired");
      assert.equal(await answerQuestion(db, key, given("answered")), false);
      await expireQuestions(db, [key]);
      assert.equal((await readAnswers(db, [key])).get(key.questionId)?.state, "expired");
    });

    await t.step("it ends with its run, and an answer that was taken stays one", async () => {
      const stopped = await asking(db);
      await requestStop(db, stopped.key);
      assert.equal(await stateOf(db, stopped.key), "cancelled");
      assert.equal(await answerQuestion(db, stopped.key, given("answered")), false);

      const lost = await asking(db);
      assert.equal(await answerQuestion(db, lost.key, given("answered")), true);
      await lost.close("cancelled");
      const taken = (await readAnswers(db, [lost.key])).get(lost.key.questionId);
      assert.deepEqual(taken, { state: "answered", content: null });
      assert.equal(await stateOf(db, lost.key), "answered");
      const open = await asking(db);
      await open.close("cancelled");
      assert.equal(await stateOf(db, open.key), "cancelled");
    });
  });
});
