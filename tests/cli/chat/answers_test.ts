import assert from "node:assert/strict";
import { describePlan, readAnswer, readPlanWord } from "../../../src/cli/chat/answers.ts";
import type { ShownPlan } from "../../../src/core/preflight.ts";

Deno.test("answers to a question: how far they reach, and why not", () => {
  for (const line of ["y", "Yes", " ok ", "/approve"]) {
    assert.deepEqual(readAnswer(line, "ask"), { approved: true });
  }
  for (const remember of ["once", "session", "always"] as const) {
    assert.deepEqual(readAnswer(remember, "session"), { approved: true, remember });
  }
  assert.deepEqual(readAnswer("once", "always"), { approved: true });
  assert.equal(readAnswer("session", "always"), null);
  assert.deepEqual(readAnswer("n", "ask"), { approved: false });
  assert.deepEqual(readAnswer("no it  is late", "ask"), { approved: false, reason: "it is late" });
  for (const line of ["", "yes please", "not now", "/tools"]) {
    assert.equal(readAnswer(line, "ask"), null);
  }
});

Deno.test("words about a plan: steps are skipped, taken in again and changed", () => {
  const steps = ["one", "two"].map((tool) => ({ tool, purpose: `Do ${tool}`, isSkipped: false }));
  const said = (line: string) => readPlanWord(line, steps);
  assert.deepEqual(said("yes"), { kind: "answer", answer: { approved: true } });
  assert.deepEqual(said("no, never"), null);
  const skipped = said("skip 2");
  assert.ok(skipped?.kind === "changed" && skipped.steps[1]?.isSkipped);
  assert.deepEqual(readPlanWord("SKIP 2", skipped.steps), { kind: "changed", steps });
  const edited = said("edit 1 only a little");
  assert.ok(edited?.kind === "changed");
  assert.equal(edited.steps[0]?.purpose, "only a little");
  for (const line of ["skip 3", "skip 0", "skip", "edit 1", "skip 1 and 2"]) {
    assert.equal(said(line), null);
  }
  const plan: ShownPlan = {
    steps: [{ tool: "one", purpose: "Do one", risk: "high", asks: true }],
    estimate: { modelCalls: 2, tokens: 300, costMicros: 1500 },
    permissions: [{ tool: "one", effect: "effect" }],
    warnings: ["Step 1: one has a high risk"],
  };
  const faked = describePlan(plan, [
    { tool: "one", purpose: "x\n  2. nothing else\x1b[1A", isSkipped: false },
  ]);
  assert.equal(faked.split("\n").length, 5);
  assert.ok(faked.includes("x\\n  2. nothing else\\u001b[1A"));
  const shown = describePlan(plan, [{ tool: "one", purpose: "Do one", isSkipped: true }]);
  assert.deepEqual(shown.split("\n"), [
    "The plan:",
    "  1. SKIPPED one (risk high, asks again): Do one",
    "about 2 model calls, 300 tokens, $0.001500",
    "it may change things: one",
    "! Step 1: one has a high risk",
  ]);
  const [step] = plan.steps;
  const twice = { ...plan, steps: [{ ...step, asks: false }, { ...step }] as ShownPlan["steps"] };
  const again = describePlan(twice, twice.steps.map((one) => ({ ...one, isSkipped: false })));
  assert.match(again, /1\. one \(risk high\): .*\n {2}2\. one \(risk high, asks again\): /);
});
