import assert from "node:assert/strict";
import fc from "fast-check";
import { createFold } from "../../src/core/fold.ts";
import { type RunBudget, smallerBudget } from "../../src/core/run_budget.ts";
import { readSampling } from "../../src/core/sampling_event.ts";
import type { SteeringText } from "../../src/core/steering.ts";
import type { ToolContext } from "../../src/core/tool.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { shownHash } from "../../src/inference/approvals.ts";
import { BUDGET_SPENT } from "../../src/inference/run_budget.ts";
import { property } from "../support/property.ts";
import { endlessly } from "./context_rig.ts";
import {
  type Answer,
  asks,
  finishOf,
  makeTool,
  type Rig,
  type RigOptions,
  runRig,
  says,
  startRig,
  textResult,
} from "./loop_rig.ts";

/** Never stops calling, whatever it is told; each call uses 15 tokens and costs 7. */
const evil: Answer = (request, context) =>
  asks(["a_go", { n: context.step ?? 0, again: request.messages.length }])(request, context);

const tool = makeTool("a.go", () => textResult("x".repeat(100)), { effect: "pure" });

function start(budget: RunBudget, more: Partial<RigOptions> = {}): Rig {
  return startRig({
    answers: endlessly(evil),
    tools: [tool],
    settings: { maxSteps: 1000 },
    ...more,
    run: { budget, ...more.run },
  });
}

async function run(budget: RunBudget, more: Partial<RigOptions> = {}): Promise<Rig> {
  const rig = start(budget, more);
  await rig.done;
  return rig;
}

Deno.test("a model that loops for ever is ended by each bound, and by no more than it", async () => {
  const cases: [RunBudget, string, number][] = [
    [{ steps: 7 }, "max-steps", 7],
    [{ tokens: 15 * 6 }, "max-tokens", 6],
    [{ tokens: 15 * 6 + 14 }, "max-tokens", 6],
    [{ tokens: 15 * 7 }, "max-tokens", 7],
    [{ costMicros: 7 * 5 }, "max-cost", 5],
  ];
  for (const [budget, reason, calls] of cases) {
    const rig = await run(budget);
    assert.equal(finishOf(rig).finishReason, reason, JSON.stringify(budget));
    assert.equal(rig.requests.length, calls);
    // The last one was to conclude, and what it called all the same is dropped.
    assert.equal(rig.requests.at(-1)?.toolChoice, "none");
    assert.ok(finishOf(rig).usage.totalTokens <= (budget.tokens ?? Infinity));
    assert.ok((finishOf(rig).costMicros ?? Infinity) <= (budget.costMicros ?? Infinity));
  }
  const rig = await run({ outputBytes: 3000 });
  assert.equal(finishOf(rig).finishReason, "max-output");
  assert.ok(rig.requests.length > 10 && rig.requests.length < 30, `${rig.requests.length}`);
});

Deno.test("what models use that tools ask counts against the bounds, and as the run's", async () => {
  const fits: (boolean | undefined)[] = [];
  const asking = makeTool("a.go", (_, { budget }) => {
    fits.push(budget?.fits(40));
    budget?.book({ model: "small", usage: { ...NO_USAGE, totalTokens: 40 }, costMicros: 20 });
    return textResult("asked");
  }, { effect: "pure" });
  const tokens = await run({ tokens: 200 }, { tools: [asking] });
  assert.equal(finishOf(tokens).finishReason, "max-tokens");
  assert.deepEqual(fits, [true, true, true, false]);
  const samples = (rig: Rig) => rig.events.filter((event) => readSampling(event) !== null).length;
  assert.equal(samples(tokens), 4);
  assert.equal(finishOf(tokens).usage.totalTokens, 15 * tokens.requests.length + 40 * 4);
  const cost = await run({ costMicros: 90 }, { tools: [asking] });
  assert.equal(finishOf(cost).finishReason, "max-cost");
  assert.equal(finishOf(cost).costMicros, 7 * cost.requests.length + 20 * samples(cost));
  assert.ok(cost.requests.length <= 4, `${cost.requests.length}`);
  const unknown = makeTool("a.go", (_, { budget }) => {
    budget?.book({ model: "small", usage: NO_USAGE, costMicros: null });
    return textResult("asked");
  }, { effect: "pure" });
  const blind = await run({ costMicros: 1000 }, { tools: [unknown] });
  assert.equal(finishOf(blind).finishReason, "max-cost");
  assert.equal(blind.requests.length, 1);
});

Deno.test("what a model has used for a call that was over by then counts all the same", async () => {
  const used = { model: "small", usage: { ...NO_USAGE, totalTokens: 40 }, costMicros: 20 };
  const budgets: ToolContext["budget"][] = [];
  const fits: (boolean | undefined)[] = [];
  const asking = makeTool("a.go", (_, { budget }) => {
    budgets.at(-1)?.book(used);
    budgets.push(budget);
    fits.push(budget?.fits(131));
    return textResult("asked");
  }, { effect: "pure" });
  const last: Answer = (...asked) => {
    budgets.at(-1)?.book(used);
    return says("Done")(...asked);
  };
  const tools = { tools: [asking], run: { budget: { tokens: 200 } } };
  const rig = await runRig({ ...tools, answers: [evil, evil, last] });
  assert.deepEqual(fits, [true, false]);
  assert.equal(rig.events.filter((event) => readSampling(event) !== null).length, 2);
  assert.equal(finishOf(rig).usage.totalTokens, 3 * 15 + 2 * 40);
  assert.equal(finishOf(rig).costMicros, 3 * 7 + 2 * 20);
});

Deno.test("what was used beside the steps counts once more for whoever takes the run over, and no oftener", async () => {
  const first = await runRig({
    answers: [evil, says("Done")],
    tools: [makeTool("a.go", (_, { budget, toolCallId }) => {
      budget?.book({ model: "small", usage: { ...NO_USAGE, totalTokens: 40 }, costMicros: 20 });
      const child = { runId: "run_2", sessionId: "ses_2", agent: "helper", steps: 3 };
      assert.ok(toolCallId);
      return { ...textResult("asked"), spent: { ...child, usage: NO_USAGE, costMicros: 5 } };
    })],
  });
  const until = first.events.findIndex((event) => event.type === "step-start" && event.step === 1);
  const events = first.events.slice(0, until);
  // One step, what its call had a model do, and the run below.
  const goOn = async (budget: RunBudget) => {
    const rig = await runRig({
      answers: [says("Done")],
      tools: [tool],
      run: { budget, resume: { events, openCalls: [], decisions: [], costMicros: 7 + 20 + 5 } },
      isResumed: true,
    });
    return [rig.requests.length, finishOf(rig).usage.totalTokens, finishOf(rig).costMicros];
  };
  const whole = [1, 15 + 40 + 15, 32 + 7];
  const none = [0, 15 + 40, 32];
  assert.deepEqual(await goOn({ tokens: 70 }), whole);
  assert.deepEqual(await goOn({ tokens: 69 }), none);
  assert.deepEqual(await goOn({ steps: 5 }), whole);
  assert.deepEqual(await goOn({ steps: 4 }), none);
});

Deno.test("a bound that is passed before calls run refuses them", async () => {
  const rig = await run({ outputBytes: 15 });
  assert.equal(finishOf(rig).finishReason, "max-output");
  const [row] = rig.journal.values();
  assert.deepEqual([row?.state, row?.errorText], ["failed", BUDGET_SPENT]);
  assert.equal(rig.requests.length, 1);
});

Deno.test("the end of its time stops a run wherever it is", async () => {
  const hung = makeTool(
    "a.go",
    (_, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true })
      ),
    { effect: "pure" },
  );
  const rig = start({ wallTimeMs: 5000 }, { tools: [hung], run: { ageMs: 1000 } });
  await rig.clock.advance(3999);
  assert.notEqual(rig.events.at(-1)?.type, "finish");
  await rig.clock.advance(1);
  await rig.clock.advance(2000);
  await rig.done;
  assert.equal(finishOf(rig).finishReason, "max-time");
  assert.equal(rig.clock.pending(), 0, "no timer stays");
  const late = await run({ wallTimeMs: 5000 }, { run: { ageMs: 5000 } });
  assert.deepEqual([finishOf(late).finishReason, late.requests.length], ["max-time", 0]);
});

Deno.test("a person is waited for as long as there is time; an answer that comes later lets nothing run", async () => {
  const done: string[] = [];
  const paying = makeTool("a.go", (_, { toolCallId }) => {
    done.push(toolCallId);
    return textResult("paid");
  });
  const permit = () => Promise.resolve({ allowed: "ask" } as const);
  const begin = async (budget: RunBudget) => {
    const rig = start(budget, { tools: [paying], run: { ageMs: 4000, permit }, isResumed: true });
    await rig.done;
    return rig;
  };
  const waits = await begin({ wallTimeMs: 10_000 });
  assert.deepEqual(waits.batches.at(-1)?.approvals?.map(({ timeoutMs }) => timeoutMs), [6000]);
  const [asked] = (await begin({ wallTimeMs: 1_000_000 })).batches.at(-1)?.approvals ?? [];
  assert.equal(asked?.timeoutMs, 60_000);

  const [approval] = waits.batches.at(-1)?.approvals ?? [];
  assert.ok(approval);
  const late = start({ wallTimeMs: 10_000 }, {
    tools: [paying],
    isResumed: true,
    run: {
      ageMs: 10_000,
      permit,
      resume: {
        events: waits.events,
        openCalls: [...waits.journal.values()],
        costMicros: 7,
        decisions: [{
          approvalId: approval.approvalId,
          hash: shownHash(approval),
          outcome: "approved",
          reason: null,
          remember: null,
          preview: approval.preview,
          shownState: approval.shownState,
        }],
      },
    },
  });
  for (const [id, record] of waits.journal) late.journal.set(id, record);
  await late.done;
  assert.deepEqual([finishOf(late).finishReason, done, late.requests.length], ["max-time", [], 0]);
});

Deno.test("a run that goes on for what was said meanwhile is as old as before, and concludes in time", async () => {
  const texts: SteeringText[] = [];
  let asked = 0;
  const rig: Rig = start({ wallTimeMs: 10_000 }, {
    answers: endlessly(async function* (request, context) {
      if (asked++ > 0) return yield* evil(request, context);
      await rig.clock.advance(9500);
      texts.push({ steeringId: "s1", kind: "queue", text: "Go on" });
      yield* says("Done")(request, context);
    }),
    run: {
      steering: {
        isBehind: false,
        waits: () => Promise.resolve(texts.length > 0),
        takeNext: ({ queued }) => Promise.resolve(queued ? texts.splice(0) : []),
        takeAll: () => Promise.resolve(texts.splice(0)),
      },
    },
  });
  await rig.done;
  assert.equal(finishOf(rig).finishReason, "max-time");
  assert.equal(rig.requests.length, 2);
  assert.equal(rig.requests[1]?.toolChoice, "none");
});

Deno.test("an unknown price keeps no bound of cost", async () => {
  const answers = endlessly(async function* (request, context) {
    for await (const read of evil(request, context)) {
      yield read.map((event) =>
        event.type === "usage" ? { type: "usage", usage: event.usage } : event
      );
    }
  });
  const rig = await run({ costMicros: 1_000_000 }, { answers });
  assert.deepEqual([finishOf(rig).finishReason, rig.requests.length], ["max-cost", 1]);
});

property(
  "whoever goes on with a run goes on counting",
  fc.record({
    batches: fc.integer({ min: 1, max: 30 }),
    budget: fc.constantFrom<RunBudget>(
      { steps: 6 },
      { tokens: 90 },
      { costMicros: 42 },
      { outputBytes: 1500 },
    ),
  }),
  async ({ batches, budget }) => {
    const whole = await run(budget);
    const cut = new Error("killed");
    const first = start(budget, {
      onBatch(_, rig) {
        if (rig.batches.length === batches) throw cut;
      },
    });
    const killed = await first.done.then(() => false, () => true);
    if (!killed || first.events.at(-1)?.type === "finish") return;
    const fold = createFold();
    for (const event of first.events) fold.apply(event);
    const done = [...first.steps.values()].filter(({ state }) => state === "done");
    // As Postgres has it: the sum over the rows of the steps.
    const costMicros = done.reduce((sum, step) => sum + (step.costMicros ?? NaN), 0);
    const openCalls = [...first.journal.values()].filter(({ state }) =>
      state === "ready" || state === "started"
    );
    const rig = start(budget, {
      run: {
        budget,
        resume: { events: first.events, openCalls, decisions: [], costMicros },
        ids: { next: (prefix) => `${prefix}_again${++minted}` },
      },
      isResumed: true,
    });
    for (const [id, record] of first.journal) rig.journal.set(id, record);
    await rig.done;
    assert.equal(finishOf(rig).finishReason, finishOf(whole).finishReason);
    assert.deepEqual(finishOf(rig).usage, finishOf(whole).usage);
    assert.equal(finishOf(rig).costMicros, finishOf(whole).costMicros);
    // Its last answer is the conclusion, also where that is begun again.
    if (rig.requests.length > 0) {
      assert.equal(rig.requests.at(-1)?.toolChoice, whole.requests.at(-1)?.toolChoice);
    }
  },
  { runs: 150 },
);

let minted = 0;

Deno.test("of each bound the smaller one counts", () => {
  assert.equal(smallerBudget(undefined, null, {}), null);
  assert.deepEqual(
    smallerBudget({ steps: 5, tokens: 10 }, { steps: 7, tokens: 3, costMicros: 1 }),
    { steps: 5, tokens: 3, costMicros: 1 },
  );
});
