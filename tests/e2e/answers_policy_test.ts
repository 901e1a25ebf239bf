import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { answer, start, untilWaiting, withTwo } from "../support/approvals_rig.ts";
import { withKey } from "../support/owned_things.ts";
import type { TestHub } from "../support/test_hub.ts";

const newKey = async (hub: TestHub, body: JsonObject) => {
  const made = await (await hub.call("/v1/admin/keys", { body: { name: "k", ...body } })).json();
  return withKey(hub, made.token);
};

Deno.test("key policy answers: says whose approvals a key may answer", async (t) => {
  await withTwo({}, async ({ first, second, script, paid }) => {
    const maker = await newKey(first, { owner: "alice" });
    const keys = {
      none: await newKey(second, { owner: "alice", policy: { answers: "none" } }),
      own: await newKey(second, { owner: "alice", policy: { answers: "own" } }),
      owner: await newKey(second, { owner: "alice", policy: { answers: "owner" } }),
      stranger: await newKey(second, { owner: "bob" }),
      backEnd: await newKey(second, { policy: { sessions: "all", answers: "owner" } }),
      all: await newKey(second, { policy: { sessions: "all" } }),
    };
    const asked = async (hub: TestHub, session?: string) => {
      script(7);
      const run = await start(hub, session === undefined ? {} : { session });
      const [approval] = await untilWaiting(hub, run.runId);
      return { ...run, approvalId: approval.id };
    };
    const statusOf = async (hub: TestHub, run: { runId: string; approvalId: string }) =>
      (await answer(hub, run.runId, run.approvalId, { approved: true })).status;

    await t.step("of a run of the same owner's other key", async () => {
      const run = await asked(maker);
      assert.equal(await statusOf(keys.stranger, run), 404);
      for (const key of [keys.none, keys.own, keys.backEnd]) {
        const refused = await answer(key, run.runId, run.approvalId, { approved: true });
        assert.equal(refused.status, 403);
        assert.equal(refused.error.code, "may_not_answer");
      }
      assert.deepEqual(paid, []);
      assert.equal(await statusOf(keys.owner, run), 200);
      await run.stream;
      assert.equal(paid.length, 1);
    });

    await t.step("own: of the run that it began, also in a session of its owner's", async () => {
      const { session } = await asked(maker).then(async (run) => {
        assert.equal(await statusOf(keys.all, run), 200);
        await run.stream;
        return run;
      });
      const run = await asked(keys.own, session);
      assert.equal(await statusOf(keys.none, run), 403);
      assert.equal(await statusOf(keys.own, run), 200);
      await run.stream;
    });

    await t.step("none: not even of its own runs", async () => {
      const run = await asked(keys.none);
      assert.equal(await statusOf(keys.none, run), 403);
      assert.equal(await statusOf(maker, run), 200);
      await run.stream;
    });

    await t.step("remember always: not for later runs of another owner's key", async () => {
      const { session, stream } = await asked(maker).then(async (run) => {
        assert.equal(await statusOf(maker, run), 200);
        return run;
      });
      await stream;
      const run = await asked(keys.all, session);
      const always = { approved: true, remember: "always" };
      const refused = await answer(maker, run.runId, run.approvalId, always);
      assert.equal(refused.status, 403);
      assert.equal(refused.error.param, "remember");
      assert.equal((await answer(keys.all, run.runId, run.approvalId, always)).status, 200);
      await run.stream;
      const { data: grants } = await (await maker.call("/v1/approvals/grants")).json();
      assert.deepEqual(grants, []);
    });
  });
});
