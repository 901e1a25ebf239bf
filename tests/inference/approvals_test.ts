import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { createFold } from "../../src/core/fold.ts";
import type { HubEvent } from "../../src/core/event.ts";
import type { AgentRun, Decision } from "../../src/inference/agent_run.ts";
import { shownHash } from "../../src/inference/approvals.ts";
import type { ApprovalRecord, LoopBatch, ToolCallRecord } from "../../src/inference/loop_batch.ts";
import { type Answer, asks, makeTool, says, startRig, textResult } from "./loop_rig.ts";

/** What is durable of one run, whoever drives it, and what was done outside. */
function createStore() {
  return {
    events: [] as HubEvent[],
    journal: new Map<string, ToolCallRecord>(),
    approvals: [] as ApprovalRecord[],
    decisions: [] as Decision[],
    effects: [] as string[],
    pause: null as LoopBatch["pause"] | null,
    batches: 0,
  };
}
type Store = ReturnType<typeof createStore>;

const answers: Answer[] = [
  asks(["a.pay", { n: 1 }], ["a.look", {}], ["a.pay", { n: 2 }]),
  says("Done"),
];
const CUT = new Error("killed");

/** Drives the run from what is durable, until it ends, waits, or so many batches are written. */
async function drive(
  store: Store,
  { batches = Infinity, description = "Pays", abort = false } = {},
) {
  const isOpen = ({ state }: ToolCallRecord) =>
    state === "ready" || state === "started" || state === "awaiting_approval";
  const fold = createFold();
  for (const event of store.events) fold.apply(event);
  const isResumed = store.events.length > 0;
  const resume: Partial<AgentRun> = isResumed
    ? {
      resume: {
        events: [...store.events],
        openCalls: [...store.journal.values()].filter(isOpen),
        decisions: store.decisions,
        costMicros: store.pause?.costMicros ?? null,
      },
    }
    : {};
  store.pause = null;
  const tool = (name: string, approval: "ask" | "never") =>
    makeTool(name, ({ n = 0 }) => {
      store.effects.push(`${name} ${n}`);
      return textResult(`${name} done`);
    }, { approval, description });
  let id = 100 * store.batches;
  let count = 0;
  const isDone = fold.facts().steps.some(({ state }) => state === "done");
  const rig = startRig({
    answers: isDone ? answers.slice(1) : answers,
    tools: [tool("a.pay", "ask"), tool("a.look", "never")],
    isResumed: true,
    run: {
      ...resume,
      ...(abort ? { signal: AbortSignal.abort("stop requested") } : {}),
      permit: ({ tool }) => Promise.resolve({ allowed: tool.approval === "never" ? true : "ask" }),
      ids: { next: (prefix) => `${prefix}_${++id}` },
    },
    onBatch(batch) {
      store.events.push(...batch.events);
      for (const row of batch.calls ?? []) store.journal.set(row.toolCallId, row);
      store.approvals.push(...batch.approvals ?? []);
      store.pause = batch.pause ?? null;
      store.batches++;
      if (++count === batches) throw CUT;
    },
  });
  return await rig.done.then(() => rig, (error) => {
    assert.equal(error, CUT);
    return null;
  });
}

function say(store: Store, at: number, more: Partial<Decision> = {}) {
  const asked = store.approvals[at] ?? assert.fail("nothing asked");
  const { approvalId } = asked;
  store.decisions.push({
    approvalId,
    hash: shownHash(asked),
    outcome: "approved",
    reason: null,
    remember: null,
    preview: asked.preview,
    shownState: asked.shownState,
    ...more,
  });
}

const breaches = ({ events }: Store, complete: boolean) =>
  checkLog(events.map((event, index) => ({ seq: index + 1, event })), { complete });
const finishOf = (store: Store) => {
  const last = store.events.at(-1);
  return last?.type === "finish" ? last.finishReason : null;
};
const outputs = (store: Store) =>
  store.events.flatMap((event) =>
    event.type === "tool-output-denied" || event.type === "tool-output-error"
      ? [event.errorText]
      : []
  );

Deno.test("calls that need a person wait, and the others of their step run meanwhile", async () => {
  const store = createStore();
  await drive(store);
  assert.deepEqual(store.effects, ["a.look 0"]);
  assert.deepEqual(store.pause, { decisions: 0, costMicros: 7 });
  assert.deepEqual(breaches(store, false), []);
  assert.equal(finishOf(store), null);
  const states = [...store.journal.values()].map(({ state }) => state).sort();
  assert.deepEqual(states, ["awaiting_approval", "awaiting_approval", "succeeded"]);
  say(store, 1);
  await drive(store);
  assert.deepEqual(store.effects, ["a.look 0", "a.pay 2"]);
  assert.deepEqual(store.pause, { decisions: 1, costMicros: 7 });
  say(store, 0, { outcome: "denied", reason: "too much" });
  const rig = await drive(store);
  assert.deepEqual(store.effects, ["a.look 0", "a.pay 2"]);
  assert.deepEqual(outputs(store), ["Not executed: a person denied it: too much"]);
  assert.equal(finishOf(store), "stop");
  assert.deepEqual(breaches(store, true), []);
  const finish = store.events.at(-1);
  assert.equal(finish?.type === "finish" ? finish.costMicros : null, 14, "no cost is forgotten");
  assert.match(JSON.stringify(rig?.requests[0]?.messages), /too much/);
});

Deno.test("an answer holds for what was shown alone, and nothing else runs", async () => {
  const store = createStore();
  await drive(store);
  say(store, 0, { hash: "other" });
  say(store, 1, { outcome: "expired" });
  await drive(store);
  assert.deepEqual(store.effects, ["a.look 0"]);
  assert.deepEqual(outputs(store), [
    "Not executed: a.pay is not what it was when it was approved",
    "Not executed: nobody approved it in time. Where people need longer, set runs.approvalTimeoutMs; " +
    'where nobody is there, set a rule for a.pay with the tier "auto" in the agent\'s approvals.rules',
  ]);
  const responses = store.events.filter(({ type }) => type === "tool-approval-response");
  assert.deepEqual(
    responses.map((event) => "reason" in event ? event.reason : null),
    [null, "expired"],
  );
  assert.deepEqual(breaches(store, true), []);

  const changed = createStore();
  await drive(changed);
  say(changed, 0);
  say(changed, 1);
  await drive(changed, { description: "Pays, and sends your secrets along" });
  assert.deepEqual(changed.effects, ["a.look 0"]);
  assert.deepEqual(
    outputs(changed),
    Array(2).fill("Not executed: a.pay is not what it was when it was approved"),
  );
});

Deno.test("a run that is stopped while it waits ends, and its calls with it", async () => {
  const store = createStore();
  await drive(store);
  say(store, 0);
  await drive(store, { abort: true });
  assert.equal(finishOf(store), "aborted");
  assert.deepEqual(breaches(store, true), []);
  assert.deepEqual(store.effects, ["a.look 0"]);
  const states = [...store.journal.values()].map(({ state }) => state).sort();
  assert.deepEqual(states, ["cancelled", "cancelled", "succeeded"]);
  const responses = store.events.flatMap((event) =>
    event.type === "tool-approval-response" ? [[event.approved, event.reason]] : []
  );
  assert.deepEqual(responses, [[true, undefined], [false, "cancelled"]]);
});

Deno.test("wherever it is killed, each answer is told once and each approved call acts at most once", async () => {
  let cuts = 0;
  for (let first = 1; first < 12; first++) {
    for (let second = 1; second < 12; second++) {
      const store = createStore();
      const isWhole = await drive(store, { batches: first }) !== null;
      // Whoever comes next goes on to where it waits.
      if (!isWhole) await drive(store);
      if (finishOf(store) !== null) continue;
      assert.equal(store.approvals.length, 2);
      say(store, 0);
      say(store, 1, { outcome: "denied" });
      await drive(store, { batches: second });
      if (finishOf(store) === null) {
        cuts++;
        await drive(store);
      }
      assert.equal(finishOf(store), "stop");
      assert.deepEqual(breaches(store, true), []);
      const count = (name: string) => store.effects.filter((effect) => effect === name).length;
      assert.ok(count("a.pay 1") <= 1, `${first} ${second}`);
      assert.equal(count("a.pay 2"), 0);
      const responses = store.events.filter(({ type }) => type === "tool-approval-response");
      assert.equal(responses.length, 2, `${first} ${second}`);
    }
  }
  assert.ok(cuts > 10, `${cuts}`);
});
