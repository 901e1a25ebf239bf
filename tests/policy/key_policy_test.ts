import assert from "node:assert/strict";
import {
  allows,
  hasHardBudget,
  isMetered,
  readPolicy,
  windowsOf,
} from "../../src/policy/key_policy.ts";

const at = { nowMs: Date.UTC(2026, 11, 31, 23, 59, 59), agent: undefined };

Deno.test("names are allowed as they are or by their pattern; no list allows all, an empty one none", () => {
  const cases: [string[] | undefined, string, boolean][] = [
    [undefined, "x", true],
    [[], "x", false],
    [["gpt-5"], "gpt-5", true],
    [["gpt-5"], "gpt-5-mini", false],
    [["openai/*"], "openai/gpt-5", true],
    [["openai/*"], "openrouter/gpt-5", false],
    [["*-mini"], "gpt-5-mini", true],
    [["a*a"], "a", false],
    [["a*b*a"], "aba", true],
    [["a*b*a"], "aa", false],
    [["*"], "", true],
    [[".*"], "xx", false],
  ];
  for (const [names, name, allowed] of cases) {
    assert.equal(allows(names, name), allowed, `${names} ${name}`);
  }
});

Deno.test("windows are those of UTC, three of the key and three of an agent with budgets", () => {
  const policy = { agentBudgets: { clerk: { daily: { hardMicros: 1 } } } };
  assert.deepEqual(windowsOf(policy, at).map(({ id }) => id), ["2026-12-31", "2026-12", "total"]);
  assert.deepEqual(windowsOf(policy, { ...at, agent: "clerk" }).slice(3), [
    { id: "agent clerk 2026-12-31", period: "daily", path: ["agentBudgets", "clerk", "daily"] },
    { id: "agent clerk 2026-12", period: "monthly", path: ["agentBudgets", "clerk", "monthly"] },
    { id: "agent clerk total", period: "total", path: ["agentBudgets", "clerk", "total"] },
  ]);
  assert.equal(windowsOf(policy, { ...at, agent: "other" }).length, 3);
});

Deno.test("only budgets and rates make a key's calls wait for the database", () => {
  assert.equal(isMetered({ models: ["x"], maxConcurrent: 3, budgets: { daily: {} } }), false);
  assert.equal(isMetered({ requestsPerMinute: 1 }), true);
  assert.equal(isMetered({ budgets: { total: { softMicros: 5 } } }), true);
  const agents = { agentBudgets: { clerk: { total: { hardMicros: 0 } } } };
  assert.equal(isMetered(agents), true);
  assert.equal(hasHardBudget(agents, "clerk"), true);
  assert.equal(hasHardBudget(agents, undefined), false);
});

Deno.test("a stored policy that this hub does not understand is none of its policies", () => {
  assert.deepEqual(readPolicy({ requestsPerMinute: 3 }), { requestsPerMinute: 3 });
  for (
    const value of [null, [], { budget: {} }, { requestsPerMinute: "3" }, {
      agentBudgets: { "a b": {} },
    }]
  ) {
    assert.equal(readPolicy(value), null);
  }
});
