import assert from "node:assert/strict";
import type { RunBudget } from "../../src/core/run_budget.ts";
import { PROPOSE_PLAN } from "../../src/core/preflight.ts";
import { dataOf } from "./context_rig.ts";
import { asks, makeTool, runRig, textResult } from "./loop_rig.ts";

const step = (tool: string) => ({ tool, purpose: "It is needed" });

/** What a person is shown of a plan. */
async function shown(
  { steps, budget, price, maxSteps = 20 }: {
    steps: string[];
    budget?: RunBudget;
    /** Of a token; unknown when left out. */
    price?: number;
    maxSteps?: number;
  },
) {
  const rig = await runRig({
    answers: [asks([PROPOSE_PLAN.replace(".", "_"), { steps: steps.map(step) }])],
    tools: [
      makeTool(PROPOSE_PLAN, () => textResult("agreed")),
      makeTool("a.look", () => textResult("seen"), { effect: "pure", risk: "low" }),
      makeTool("a.break", () => textResult("gone"), {
        risk: "high",
        hints: { destructiveHint: true },
      }),
      makeTool("a.keep", () => textResult("kept"), {
        risk: "medium",
        hints: { destructiveHint: false },
      }),
    ],
    settings: { maxSteps },
    isResumed: true,
    run: {
      permit: () => Promise.resolve({ allowed: "ask" }),
      ...budget === undefined ? {} : { budget },
      ...price === undefined ? {} : { costOf: ({ totalTokens }) => totalTokens * price },
    },
  });
  const [plan] = dataOf(rig.events, "preflight");
  const [approval] = rig.batches.at(-1)?.approvals ?? [];
  assert.ok(plan !== undefined && approval !== undefined);
  return { plan, warnings: plan["warnings"], approval };
}

Deno.test("a plan warns of tools that destroy, of great risk and that are not there", async () => {
  const { warnings, approval } = await shown({
    steps: ["a.look", "a.break", "a_keep", "a.gone"],
    price: 1,
  });
  assert.deepEqual(warnings, [
    "Step 2: a.break has a high risk",
    "Step 2: a.break says that it may destroy something",
    "Step 4: the agent has no tool a.gone",
  ]);
  assert.deepEqual([approval.risk, approval.tier], ["high", "always"]);
  const harmless = await shown({ steps: ["a.look", "a.keep"], price: 1 });
  assert.deepEqual(harmless.warnings, []);
  assert.equal(harmless.approval.risk, "medium");
});

Deno.test("a plan warns where its price is not known", async () => {
  const { plan, warnings } = await shown({ steps: ["a.look"] });
  assert.deepEqual(warnings, ["The price of the model is not known"]);
  assert.equal((plan["estimate"] as { costMicros: unknown }).costMicros, null);
});

Deno.test("a plan warns of each bound that it may pass, and of none that it may not", async () => {
  const { plan } = await shown({ steps: ["a.look"], price: 2 });
  // The step that proposed it has used one call of 15 tokens, which cost 7.
  const { tokens, costMicros } = plan["estimate"] as { tokens: number; costMicros: number };
  assert.equal(costMicros, tokens * 2);
  const bounds: [RunBudget, string, number][] = [
    [{ steps: 3 }, "steps", 3],
    [{ tokens: tokens + 15 }, "tokens", tokens + 15],
    [{ costMicros: costMicros + 7 }, "costMicros", costMicros + 7],
  ];
  for (const [budget, bound, used] of bounds) {
    const fits = await shown({ steps: ["a.look"], price: 2, budget });
    assert.deepEqual(fits.warnings, [], bound);
    const most = used - 1;
    const over = await shown({ steps: ["a.look"], price: 2, budget: { [bound]: most } });
    assert.deepEqual(over.warnings, [
      `The plan may not be finished: about ${used} ${bound} in all, and the run may use ${most}`,
    ]);
  }
  const many = await shown({ steps: ["a.look", "a.look"], price: 2, maxSteps: 3 });
  assert.deepEqual(many.warnings, [
    "The plan may not be finished: about 4 steps in all, and the run may use 3",
  ]);
});
