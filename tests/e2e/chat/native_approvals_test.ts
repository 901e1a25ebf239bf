import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import {
  answeredMessage,
  chunkOf,
  chunksOf,
  typesOf,
  userSays,
} from "../../support/ai_sdk_page.ts";
import {
  answer,
  approvalsOf,
  checkStreams,
  runOf,
  untilWaiting,
  withTwo,
} from "../../support/approvals_rig.ts";
import { eventually, type TestHub } from "../../support/test_hub.ts";

/** Posts to a chat as a client of this level. */
const post = (hub: TestHub, body: JsonObject, level = "6") =>
  hub.call("/api/chat", { body, headers: { "hub-stream-level": level } });

const metadataOf = (chunk: JsonObject) => chunk["messageMetadata"] as JsonObject;

Deno.test("answers to approvals in a chat's message: the stream ends while the run waits, and the same message goes on", async (t) => {
  await withTwo({ approvalTimeoutMs: 600_000 }, async ({ first, second, paid, script }) => {
    for (const [at, level] of ["6", "7"].entries()) {
      for (const approved of [true, false]) {
        await t.step(`level ${level}, ${approved ? "approved" : "denied"}`, async () => {
          const amount = 10 * at + Number(approved) + 1;
          const id = `chat-${level}-${approved}`;
          const requests = script(amount);
          const asked = await chunksOf(
            await post(first, { id, messages: [userSays("u1", "Go")] }, level),
          );
          const begun = chunkOf(asked, "start");
          const { runId } = metadataOf(begun) as { runId: string };
          const request = chunkOf(asked, "tool-approval-request");
          const finish = asked.at(-1) ?? {};
          assert.equal(finish["type"], "finish");
          assert.equal(finish["finishReason"], "tool-calls");
          assert.equal(metadataOf(finish)["finishReason"], "waiting");
          const [shown] = await untilWaiting(second, runId);
          assert.equal(request["approvalId"], shown.id);

          // What a person has to know comes along.
          const { id: dataId, data } = chunkOf(asked, "data-approval") as {
            id: string;
            data: JsonObject;
          };
          assert.equal(dataId, shown.id);
          assert.equal(data["state"], "requested");
          assert.equal(data["risk"], "high");
          assert.match(String(data["expiresAt"]), /^\d{4}-/);

          // The other replica takes the answer as well as this one.
          const message = answeredMessage(asked, { approved, reason: "as agreed" });
          const body = {
            id,
            trigger: "submit-message",
            messageId: begun["messageId"] ?? "",
            messages: [userSays("u1", "Go"), message],
          };
          const rest = await chunksOf(await post(second, body, level));
          assert.equal(chunkOf(rest, "start")["messageId"], begun["messageId"]);
          const outcome = approved ? "tool-output-available" : "tool-output-denied";
          assert.equal(chunkOf(rest, outcome)["toolCallId"], request["toolCallId"]);
          const decided = chunkOf(rest, "data-approval") as { data: JsonObject };
          assert.equal(decided.data["state"], approved ? "approved" : "denied");
          assert.deepEqual(
            typesOf(rest).filter((type) => /input|approval-request/.test(type)),
            [],
            "what the client has is not sent again",
          );
          assert.equal(rest.at(-1)?.["finishReason"], "stop");
          assert.equal(paid.includes(String(amount)), approved);
          if (!approved) assert.match(JSON.stringify(requests[1]?.json), /as agreed/);

          // The same request once more, as after a lost answer, changes nothing.
          const again = await chunksOf(await post(first, body, level));
          assert.deepEqual(
            again.filter(({ type }) => type !== "finish-step"),
            rest.filter(
              ({ type }) => type !== "finish-step",
            ),
          );
          const [stored] = await approvalsOf(first, runId);
          assert.equal(stored.state, approved ? "approved" : "denied");
          await checkStreams(
            first.call(`/v1/runs/${runId}/stream`).then((reply) => reply.text()),
            [second],
            runId,
          );
          const kept = await (await second.call(`/api/chat/${id}/messages`)).json();
          assert.deepEqual(
            kept.messages.map((one: { id: string; role: string }) => [one.id, one.role])[1],
            [begun["messageId"], "assistant"],
          );
        });
      }
    }

    await t.step("two questions, answered in one message and one by one", async () => {
      for (const together of [true, false]) {
        const id = `two-${together}`;
        const amounts = together ? [51, 52] : [61, 62];
        script(...amounts);
        const asked = await chunksOf(await post(first, { id, messages: [userSays("u1", "Go")] }));
        const start = chunkOf(asked, "start");
        const requests = asked.filter(({ type }) => type === "tool-approval-request");
        assert.equal(requests.length, 2);
        const parts = (answered: number) =>
          requests.map(({ approvalId, toolCallId }, index) => ({
            ...{ type: "dynamic-tool", toolName: "test.pay", toolCallId: toolCallId ?? "" },
            state: index < answered ? "approval-responded" : "approval-requested",
            approval: { id: approvalId ?? "", ...index < answered ? { approved: true } : {} },
          }));
        const say = async (answered: number, metadata: JsonObject) =>
          await chunksOf(
            await post(second, {
              id,
              messages: [{
                id: start["messageId"] ?? "",
                role: "assistant",
                metadata,
                parts: parts(answered),
              }],
            }),
          );
        let metadata = metadataOf(asked.at(-1) ?? {});
        if (!together) {
          const half = await say(1, metadata);
          assert.equal(half.at(-1)?.["finishReason"], "tool-calls");
          assert.equal(typesOf(half).filter((type) => type === "tool-output-available").length, 1);
          metadata = metadataOf(half.at(-1) ?? {});
        }
        const rest = await say(2, metadata);
        assert.equal(rest.at(-1)?.["finishReason"], "stop");
        assert.equal(
          typesOf(rest).filter((type) => type === "tool-output-available").length,
          together ? 2 : 1,
        );
        assert.deepEqual(paid.slice(-2).toSorted(), amounts.map(String));
      }
    });
  });
});

Deno.test("answers to approvals in a chat's message count for what was shown alone", async (t) => {
  await withTwo({ approvalTimeoutMs: 600_000 }, async ({ first, second, paid, script }) => {
    script(7);
    const asked = await chunksOf(
      await post(first, { id: "c", messages: [userSays("u1", "Go")] }),
    );
    const { runId } = metadataOf(chunkOf(asked, "start")) as { runId: string };
    const say = async (message: JsonObject, id = "c") => {
      const reply = await post(second, { id, messages: [userSays("u1", "Go"), message] });
      return { status: reply.status, text: await reply.text() };
    };
    const stillWaits = async () => {
      assert.equal((await runOf(first, runId)).status, "waiting");
      assert.deepEqual((await approvalsOf(first, runId)).map(({ state }) => state), ["pending"]);
    };

    await t.step("other arguments, or another call", async () => {
      for (const part of [{ input: { amount: 1 } }, { toolCallId: "call_other" }]) {
        const { status, text } = await say(answeredMessage(asked, { approved: true, ...part }));
        assert.equal(status, 409);
        assert.match(text, /asks for something else than what was shown/);
        await stillWaits();
      }
    });

    await t.step("questions of another message or another chat", async () => {
      const message = answeredMessage(asked, { approved: true });
      const unknown = answeredMessage(asked, {
        approved: true,
        approval: { id: `apr_${"0".repeat(32)}`, approved: true },
      });
      for (
        const { status } of [
          await say({ ...message, id: "msg_unknown" }),
          await say({ ...message, id: `msg_${"0".repeat(32)}` }),
          await say(unknown),
          await say(message, "other"),
        ]
      ) assert.equal(status, 404);
      await stillWaits();
      assert.equal((await first.call("/v1/sessions/ext:other")).status, 404);
    });

    await t.step("what is no answer", async () => {
      for (const approval of [null, {}, { id: "apr_1" }, { id: "apr_1", approved: "yes" }]) {
        const message = answeredMessage(asked, { approved: true, approval });
        assert.equal((await say(message)).status, 400);
      }
      await stillWaits();
    });

    await t.step("one that was answered otherwise", async () => {
      const [shown] = await approvalsOf(first, runId);
      await answer(first, runId, shown.id, { approved: false });
      const { status, text } = await say(answeredMessage(asked, { approved: true }));
      assert.equal(status, 409);
      assert.match(text, /cannot be answered any more: it is denied/);
      await eventually(async () =>
        (await runOf(first, runId)).status === "completed" ? true : null
      );
      assert.deepEqual(paid, []);
      // The answer that counted is no mistake: what follows is told.
      const rest = await post(first, {
        id: "c",
        messages: [answeredMessage(asked, { approved: false })],
      });
      assert.equal((await chunksOf(rest)).at(-1)?.["finishReason"], "stop");
    });
  });
});

Deno.test("a chat that is opened again while its run waits is shown the question, and its answer goes on", async () => {
  await withTwo({ approvalTimeoutMs: 600_000 }, async ({ first, second, paid, script }) => {
    script(8);
    await chunksOf(await post(first, { id: "c", messages: [userSays("u1", "Go")] }));
    const resumed = await chunksOf(
      await second.call("/api/chat/c/stream", { headers: { "hub-stream-level": "6" } }),
    );
    assert.equal(resumed.at(-1)?.["finishReason"], "tool-calls");
    const rest = await chunksOf(
      await post(second, { id: "c", messages: [answeredMessage(resumed, { approved: true })] }),
    );
    assert.equal(rest.at(-1)?.["finishReason"], "stop");
    assert.deepEqual(paid, ["8"]);
    assert.equal((await first.call("/api/chat/c/stream")).status, 204);
  });
});
