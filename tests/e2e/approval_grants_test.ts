import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import {
  answer,
  approvalsOf,
  checkStreams,
  PAY,
  type Rig,
  start,
  untilWaiting,
  withTwo,
} from "../support/approvals_rig.ts";
import type { TestHub } from "../support/test_hub.ts";

const TIME = { approvalTimeoutMs: 600_000 };
const AGENTS = {
  other: {},
  strict: { approvals: { rules: [{ tools: ["test.*"], tier: "always" }] } },
  lasting: { approvals: { rules: [{ effects: ["effect"], risks: ["high"], tier: "session" }] } },
  free: {
    approvals: {
      ask: ["hub.current_time"],
      rules: [{ tools: ["test.pay", "hub.*"], tier: "auto" }],
    },
  },
};

interface Grant {
  id: string;
  agent: string;
  toolName: string;
  sessionId: string | null;
  approvalId: string;
  keyId: string;
  expiresAt: string | null;
}

const grantsOf = async (hub: TestHub): Promise<Grant[]> =>
  (await (await hub.call("/v1/approvals/grants")).json()).data;

/** Runs one payment whose question is answered so, if it asks; gives the session and whether it asked. */
async function pay(
  { script, paid }: Rig,
  hub: TestHub,
  { amount, said, ...body }: JsonObject & { amount: number; said: JsonObject | null },
) {
  script(amount);
  const { session, runId, stream } = await start(hub, body);
  if (said === null) {
    const text = await stream;
    assert.doesNotMatch(text, /tool-approval-request/);
    assert.ok(paid.includes(`${amount}`));
    return { session, runId };
  }
  const [asked] = await untilWaiting(hub, runId);
  const answered = await answer(hub, runId, asked.id, said);
  assert.equal(answered.status, 200, JSON.stringify(answered));
  await stream;
  return { session, runId };
}

Deno.test("an approval may hold for later calls", async (t) => {
  await withTwo(TIME, async (rig) => {
    const { first, second, paid, script } = rig;

    await t.step("once, when nothing else is said", async () => {
      const { session } = await pay(rig, first, { amount: 1, said: { approved: true } });
      await pay(rig, first, { amount: 2, session, said: { approved: true, remember: "once" } });
      assert.deepEqual(await grantsOf(first), []);
    });

    await t.step("for the session, on every replica, and for no other session", async () => {
      script(3, 4);
      const { session, runId, stream } = await start(first);
      const [asked, also] = await untilWaiting(second, runId);
      const said = await answer(second, runId, asked.id, { approved: true, remember: "session" });
      assert.deepEqual([said.status, said.remember, said.tier], [200, "session", "ask"]);
      // What is asked already stays asked.
      await answer(first, runId, also?.id ?? "", { approved: false });
      const events = await checkStreams(stream, [first, second], runId);
      const responses = events.filter((event) => event.type === "tool-approval-response");
      assert.deepEqual(responses.map(({ remember }) => remember).sort(), ["session", undefined]);
      for (const [hub, amount] of [[first, 5], [second, 6]] as const) {
        await pay(rig, hub, { amount, session, said: null });
      }
      const [grant] = await grantsOf(second);
      assert.deepEqual([grant?.sessionId, grant?.approvalId], [session, asked.id]);
      await pay(rig, first, { amount: 7, said: { approved: false } });
      await pay(rig, first, { amount: 8, session, agent: "other", said: { approved: false } });
      await first.call(`/v1/sessions/${session}`, { method: "DELETE" });
      assert.deepEqual(await grantsOf(first), []);
    });

    await t.step("for all sessions, until it is taken back on any replica", async () => {
      await pay(rig, first, { amount: 10, said: { approved: true, remember: "always" } });
      await pay(rig, first, { amount: 11, said: null });
      await pay(rig, second, { amount: 12, said: null });
      await pay(rig, second, { amount: 13, agent: "other", said: { approved: false } });
      await pay(rig, second, { amount: 14, agent: "strict", said: { approved: false } });
      const [grant, ...others] = await grantsOf(second);
      assert.deepEqual(
        [others.length, grant?.toolName, grant?.agent, grant?.sessionId],
        [0, "test.pay", "default", null],
      );
      const remove = () => second.call(`/v1/approvals/grants/${grant?.id}`, { method: "DELETE" });
      assert.equal((await remove()).status, 204);
      assert.equal((await remove()).status, 404);
      await pay(rig, first, { amount: 15, said: { approved: false } });
      const [audit] = await first.hub.start.db.read`select action, subject from hub.audit
        where action = 'grant.remove'`;
      assert.equal(audit?.["subject"], grant?.id);
    });

    await t.step("for so long", async () => {
      const said = { approved: true, remember: "always", rememberSeconds: 3600 };
      await pay(rig, first, { amount: 20, said });
      await pay(rig, second, { amount: 21, said: null });
      assert.ok(Date.parse((await grantsOf(first))[0]?.expiresAt ?? "") > Date.now());
      await first.hub.start.db.control`update hub.approval_grants set expires_at = now()`;
      assert.deepEqual(await grantsOf(first), []);
      await pay(rig, second, { amount: 22, said: { approved: false } });
    });

    await t.step("for runs of its key alone, whose owner alone sees it", async () => {
      const made = await first.call("/v1/admin/keys", { body: { name: "someone" } });
      const { token } = await made.json();
      const theirs: TestHub = {
        ...first,
        call: (path, options = {}) =>
          first.call(path, { ...options, headers: { authorization: `Bearer ${token}` } }),
      };
      await pay(rig, theirs, { amount: 30, said: { approved: true, remember: "always" } });
      await pay(rig, theirs, { amount: 31, said: null });
      await pay(rig, first, { amount: 32, said: { approved: true, remember: "always" } });
      const all = await grantsOf(first);
      const own = await grantsOf(theirs);
      assert.deepEqual([all.length, own.length], [2, 1]);
      const ours = all.find(({ id }) => id !== own[0]?.id);
      const stolen = await theirs.call(`/v1/approvals/grants/${ours?.id}`, { method: "DELETE" });
      assert.equal(stolen.status, 404);
      for (const { id } of all) {
        await first.call(`/v1/approvals/grants/${id}`, { method: "DELETE" });
      }
      await pay(rig, theirs, { amount: 33, said: { approved: false } });
    });

    await t.step("by an agent's rules: session unless it says once, always never", async () => {
      const lasting = { agent: "lasting" };
      const { session } = await pay(rig, first, {
        ...lasting,
        amount: 40,
        said: { approved: true },
      });
      await pay(rig, second, { ...lasting, session, amount: 41, said: null });
      const said = { approved: true, remember: "once" };
      const other = await pay(rig, first, { ...lasting, amount: 42, said });
      await pay(rig, first, { ...lasting, session: other.session, amount: 43, said });
      script(44);
      const { runId, stream } = await start(first, { agent: "strict" });
      const [asked] = await untilWaiting(first, runId);
      assert.equal(asked.tier, "always");
      for (
        const body of [
          { approved: true, remember: "always" },
          { approved: true, rememberSeconds: 5 },
          { approved: false, remember: "session" },
        ]
      ) {
        const refused = await answer(first, runId, asked.id, body);
        assert.deepEqual([refused.status, refused.error.type], [400, "invalid_request_error"]);
      }
      assert.equal((await approvalsOf(first, runId))[0].state, "pending");
      await answer(first, runId, asked.id, { approved: true });
      await stream;
      assert.ok(paid.includes("44"));
    });

    await t.step("a rule lets pass what a tool asks for; what `ask` names is asked", async () => {
      script(50);
      const { runId, stream } = await start(first, { agent: "free" });
      const asked = await untilWaiting(first, runId);
      assert.deepEqual(asked.map(({ toolName }) => toolName), ["hub.current_time"]);
      assert.ok(paid.includes("50"));
      await answer(first, runId, asked[0].id, { approved: true });
      await stream;
    });

    await t.step("of two answers at once the one that counts grants", async () => {
      for (const round of [60, 61, 62]) {
        await first.hub.start.db.control`delete from hub.approval_grants`;
        script(round);
        const { runId, stream } = await start(first);
        const [asked] = await untilWaiting(first, runId);
        const bodies = [
          { approved: true, remember: "session" },
          { approved: false },
          { approved: true, remember: "always" },
        ];
        const said = await Promise.all(
          bodies.map((body, at) => answer(at === 0 ? first : second, runId, asked.id, body)),
        );
        const winner = said.findIndex(({ status }) => status === 200);
        assert.deepEqual(said.map(({ status }) => status).sort(), [200, 409, 409]);
        await checkStreams(stream, [first, second], runId);
        const scopes = (await grantsOf(first)).map(({ sessionId }) => sessionId === null);
        assert.deepEqual(scopes, [[false], [], [true]][winner]);
        assert.equal(paid.includes(`${round}`), winner !== 1);
      }
    });
  }, AGENTS);
});

Deno.test("what is granted is what was shown", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-grants-" });
  const changed = `${folder}/pay.ts`;
  await Deno.writeTextFile(
    changed,
    `import pay from ${JSON.stringify(`file://${PAY}`)};
     export default { ...pay, description: "Pays an amount, twice", run: pay.run };`,
  );
  try {
    await withTwo(
      TIME,
      async (rig) => {
        const { first, second } = rig;
        await pay(rig, first, { amount: 1, said: { approved: true, remember: "always" } });
        await pay(rig, first, { amount: 2, said: null });
        await pay(rig, second, { amount: 3, said: { approved: false } });
        await pay(rig, second, { amount: 4, said: { approved: true, remember: "always" } });
        await pay(rig, second, { amount: 5, said: null });
        await pay(rig, first, { amount: 6, said: { approved: false } });
        assert.equal((await grantsOf(first)).length, 1);
      },
      {},
      { operations: { modules: [changed] } },
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
