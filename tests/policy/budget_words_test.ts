import assert from "node:assert/strict";
import { budgetRefusal } from "../../src/policy/budget_words.ts";

const WINDOWS = [
  { id: "2026-11-23", period: "daily", path: ["budgets", "daily"] },
  { id: "2026-11", period: "monthly", path: ["budgets", "monthly"] },
] as const;
const NOW = Date.UTC(2026, 10, 23, 23, 59, 50);

const refuse = (daily: [number, number], monthly: [number, number], amountMicros = 10) => {
  const states = [daily, monthly].map(([spentMicros, reservedMicros], at) => ({
    id: WINDOWS[at]?.id ?? "",
    spentMicros,
    reservedMicros,
    hardMicros: 100,
    softMicros: null,
  }));
  const facts = { windows: WINDOWS, amountMicros, nowMs: NOW, headers: {} };
  const { code, clientCode, retryAfterMs, message } = budgetRefusal("key_1", facts, states);
  assert.equal(clientCode, "insufficient_quota");
  return [code, retryAfterMs, /^The (\w+) budget/.exec(message)?.[1]];
};

Deno.test("budgetRefusal: what reservations alone leave no room for may be tried again in a second", () => {
  assert.deepEqual(refuse([0, 95], [0, 95]), ["budget_reserved", 1000, "daily"]);
  assert.deepEqual(refuse([90, 1], [0, 0]), ["budget_reserved", 1000, "daily"]);
});

Deno.test("budgetRefusal: what is spent decides, in whichever window", () => {
  assert.deepEqual(refuse([91, 0], [91, 0]), ["insufficient_quota", 10_000, "daily"]);
  const untilDecember = Date.UTC(2026, 11, 1) - NOW;
  assert.deepEqual(refuse([0, 95], [95, 5]), ["insufficient_quota", untilDecember, "monthly"]);
  assert.deepEqual(refuse([0, 0], [0, 0], 101), ["insufficient_quota", 10_000, "daily"]);
});
