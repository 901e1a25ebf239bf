import assert from "node:assert/strict";
import { parseRunBudget } from "../../src/cli/budget_option.ts";

Deno.test("--budget names bounds of a run, each with its unit", () => {
  assert.equal(parseRunBudget([]), undefined);
  assert.deepEqual(
    parseRunBudget(["steps=20", "time=15m", "tokens=100000", "cost=0.50", "bytes=1000000"]),
    {
      steps: 20,
      wallTimeMs: 900_000,
      tokens: 100_000,
      costMicros: 500_000,
      outputBytes: 1_000_000,
    },
  );
  const wrong = ["", "steps", "steps=0", "steps=1.5", "time=15", "cost=-1", "cost=0", "all=1"];
  for (const text of [...wrong, "toString=1"]) {
    assert.throws(() => parseRunBudget([text]), /got .*, wanted|wanted a time/, text);
  }
});
