import assert from "node:assert/strict";
import fc from "fast-check";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent, SequencedEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import type { Tool, ToolEffect } from "../../src/core/tool.ts";
import type { Permission } from "../../src/inference/agent_run.ts";
import type { ToolCallRecord } from "../../src/inference/loop_batch.ts";
import { OUTCOME_UNKNOWN, replayInto } from "../../src/inference/resume.ts";
import { property } from "../support/property.ts";
import { killedBehind, leftOf } from "./killed_rig.ts";
import { asks, makeTool, type Rig, runRig, says, startRig, textResult } from "./loop_rig.ts";

/** Numbers that a former owner may have shown without committing them. */
const RESERVED = 4096;

/** A run of three steps: two calls, one call, words. Each effect is noted outside the run. */
function script(effect: ToolEffect) {
  const effects: string[] = [];
  const tool = (name: string) =>
    makeTool(name, (_, { idempotencyKey }) => {
      effects.push(idempotencyKey);
      return textResult(`${name} done`);
    }, { effect });
  const answers = [
    asks(["a.one", { n: 1 }], ["a.two", { n: 2 }]),
    asks(["a.one", { n: 3 }]),
    says("All done"),
  ];
  return { effects, answers, tools: [tool("a.one"), tool("a.two")] };
}

/** Drives a run until so many batches are durable, and leaves it there as a kill would. */
async function runUntil(batches: number, effect: ToolEffect) {
  const { effects, answers, tools } = script(effect);
  const rig = await killedBehind(batches, (rest) => startRig({ answers, tools, ...rest }));
  const killed = rig.batches.length === batches;
  return { rig, effects, killed };
}

/** Another replica goes on from what was durable. */
async function goOn(first: Rig, effect: ToolEffect) {
  const { effects, answers, tools } = script(effect);
  const fold = createFold();
  for (const event of first.events) fold.apply(event);
  const isOpen = fold.open().step !== null;
  const { steps, run } = leftOf(first);
  const rig = startRig({ answers: answers.slice(steps), tools, run, isResumed: true });
  for (const [id, record] of first.journal) rig.journal.set(id, record);
  await rig.done;
  let seq = 0;
  const log: SequencedEvent[] = first.events.map((event) => ({ seq: ++seq, event }));
  if (isOpen) seq += RESERVED;
  for (const event of rig.events) log.push({ seq: ++seq, event });
  return { rig, log, effects };
}

/** What another replica goes on with when the first step is done, these of its calls are not, and nothing came behind it. */
function behindFirstStep({ events }: Rig, openCalls: readonly ToolCallRecord[]) {
  const until = events.findIndex(({ type }) => type === "step-finish");
  const journal = new Map(openCalls.map((record) => [record.toolCallId, record]));
  return leftOf({ events: events.slice(0, until + 1), journal }).run;
}

for (const effect of ["effect", "pure", "idempotent"] as const) {
  property(
    `a run killed behind any batch goes on to a whole log (${effect} tools)`,
    fc.integer({ min: 1, max: 30 }),
    async (batches) => {
      const first = await runUntil(batches, effect);
      // A run whose last event is written is nobody's any more.
      if (!first.killed || first.rig.events.at(-1)?.type === "finish") return;
      const { rig, log, effects } = await goOn(first.rig, effect);
      assert.deepEqual(checkLog(log), []);
      assert.equal(log.at(-1)?.event.type, "finish");
      const all = [...first.effects, ...effects];
      if (effect === "effect") assert.equal(new Set(all).size, all.length, "an effect came twice");
      for (const [id, { state }] of rig.journal) {
        assert.ok(state !== "ready" && state !== "started", `${id} is left ${state}`);
      }
      const words = JSON.stringify(log);
      const doubts = [...rig.journal.values()].filter(({ state }) => state === "unknown");
      assert.equal(words.includes(OUTCOME_UNKNOWN), doubts.length > 0);
      if (effect === "pure") assert.equal(doubts.length, 0);
    },
  );
}

Deno.test("a call that began and may act outside is in doubt; one that had not begun runs", async () => {
  const { tools } = script("effect");
  const first = await runRig({ answers: script("effect").answers, tools });
  const calls = [...first.journal.values()].filter(({ step }) => step === 0);
  const openCalls = calls.map((record, index): ToolCallRecord => {
    const { output: _, ...rest } = record;
    return { ...rest, state: index === 0 ? "started" : "ready" };
  });
  const { effects, answers, tools: own } = script("effect");
  const rig = await runRig({
    answers: answers.slice(1),
    tools: own,
    run: behindFirstStep(first, openCalls),
    isResumed: true,
  });
  assert.equal(rig.journal.get(calls[0]?.toolCallId ?? "")?.state, "unknown");
  assert.equal(rig.journal.get(calls[1]?.toolCallId ?? "")?.state, "succeeded");
  assert.equal(effects.length, 2);
  const read = JSON.stringify(rig.requests[0]?.messages);
  assert.ok(read.includes(OUTCOME_UNKNOWN) && read.includes("a.two done"));
});

/** Leaves a call of one tool in a state, and goes on with another tool of that name and other rules. */
async function goOnWith(
  state: "ready" | "started",
  { then, now, permission = { allowed: true } }: {
    then: Partial<Tool>;
    now: Partial<Tool>;
    permission?: Permission;
  },
) {
  const ran: string[] = [];
  const tool = (rest: Partial<Tool>) =>
    makeTool("a.one", (_, { toolCallId }) => {
      ran.push(toolCallId);
      return textResult("done");
    }, rest);
  const answers = [asks(["a.one", { n: 1 }]), says("All done")];
  const first = await runRig({ answers, tools: [tool(then)] });
  const openCalls = [...first.journal.values()].map(({ output: _, ...record }) => ({
    ...record,
    state,
  }));
  ran.length = 0;
  const rig = await runRig({
    answers: answers.slice(1),
    tools: [tool(now)],
    run: { ...behindFirstStep(first, openCalls), permit: () => Promise.resolve(permission) },
    isResumed: true,
  });
  const record = [...rig.journal.values()][0] ?? assert.fail("no call");
  return { rig, record, ran: ran.length };
}

Deno.test("a call that began runs again only with the tool that it was judged by", async () => {
  const idempotent = { effect: "idempotent" } as const;
  const cases: [Partial<Tool>, Partial<Tool>, string][] = [
    [idempotent, idempotent, "succeeded"],
    [idempotent, { ...idempotent, description: "Does something else" }, "unknown"],
    [idempotent, { ...idempotent, place: "elsewhere" }, "unknown"],
    [idempotent, { effect: "effect" }, "unknown"],
    [{ effect: "pure" }, { effect: "effect" }, "unknown"],
    [{ effect: "pure" }, { effect: "pure" }, "succeeded"],
  ];
  for (const [then, now, state] of cases) {
    const { record, ran } = await goOnWith("started", { then, now });
    assert.deepEqual([record.state, ran], [state, state === "succeeded" ? 1 : 0]);
    if (state === "unknown") assert.equal(record.errorText, OUTCOME_UNKNOWN);
  }
});

Deno.test("a call that began before its run was left stands so in the journal while it waits for a place", async () => {
  const { answers, tools } = script("idempotent");
  const first = await runRig({ answers, tools });
  const openCalls = [...first.journal.values()].filter(({ step }) => step === 0)
    .map(({ output: _, ...record }): ToolCallRecord => ({ ...record, state: "started" }));
  const states: (string | undefined)[] = [];
  for (const isStopped of [false, true]) {
    const rig = startRig({
      answers: answers.slice(1),
      tools,
      settings: { maxParallelTools: 1 },
      run: behindFirstStep(first, openCalls),
      isResumed: true,
      onBatch: ({ calls }) => {
        const state = calls?.find(({ index }) => index === 1)?.state;
        if (state !== undefined) states.push(state);
      },
    });
    if (isStopped) rig.abort.abort("stopped");
    await rig.done;
  }
  assert.deepEqual(states, ["started", "started", "succeeded", "unknown"]);
});

Deno.test("a call that had not begun is judged again, by the tool and the rules of now", async () => {
  const then = { effect: "pure" } as const;
  const now = { effect: "effect", description: "Does more" } as const;
  const reason = "Not executed: not any more";
  const denied = await goOnWith("ready", {
    then,
    now: then,
    permission: { allowed: false, reason },
  });
  assert.deepEqual([denied.record.state, denied.record.errorText, denied.ran], [
    "denied",
    reason,
    0,
  ]);
  const asked = await goOnWith("ready", { then, now: then, permission: { allowed: "ask" } });
  assert.deepEqual([asked.record.state, asked.ran], ["awaiting_approval", 0]);
  const last = asked.rig.batches.at(-1);
  assert.deepEqual([last?.approvals?.length, last?.pause?.decisions], [1, 0]);
  const other = await goOnWith("ready", { then, now });
  assert.deepEqual([other.record.state, other.record.effect, other.ran], [
    "succeeded",
    "effect",
    1,
  ]);
  const validate: Tool["validate"] = () => ({
    ok: false,
    problems: [{ path: "/n", wanted: "nothing", got: "1" }],
  });
  const unfit = await goOnWith("ready", { then, now: { ...now, validate } });
  assert.deepEqual([unfit.record.state, unfit.ran], ["failed", 0]);
});

Deno.test("replayInto: the id of a source is not given again after a takeover", () => {
  const events: HubEvent[] = [
    { type: "text-start", id: "p0" },
    { type: "source-url", sourceId: "p1", url: "https://a.example/" },
  ];
  assert.equal(replayInto(createFold(), events), 2);
});
