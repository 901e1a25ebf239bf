import assert from "node:assert/strict";
import fc from "fast-check";
import { expandVariables, hideVariables } from "../../src/config/expand.ts";
import { createProblemList } from "../../src/config/problem.ts";
import type { Json } from "../../src/core/json.ts";
import { property } from "../support/property.ts";

function expand(value: Json, env: Record<string, string> = {}) {
  const problems = createProblemList({ lineOf: () => undefined, variableOf: () => undefined });
  const expanded = expandVariables(value, {
    env: (name) => env[name],
    overridden: new Map(),
    problems,
  });
  return { ...expanded, problems: problems.all };
}

Deno.test("variables are replaced in every text at every depth, and in no name", () => {
  const { value } = expand({ "${A}": ["x${A}y", { b: "${A}${B}" }], n: 1 }, { A: "1", B: "${A}" });
  // What a variable holds is not expanded again.
  assert.deepEqual(value, { "${A}": ["x1y", { b: "1${A}" }], n: 1 });
});

Deno.test("defaults stand in for unset and empty variables", () => {
  const text = "${A:-d}|${B:-d}|${C:-}|${D:-a:-b c}";
  assert.equal(expand(text, { A: "a", B: "" }).value, "a|d||a:-b c");
  assert.equal(expand("${B}", { B: "" }).value, "");
});

Deno.test("a doubled dollar stands for a plain one", () => {
  assert.equal(expand("$${A} ${A} $$ $A", { A: "1" }).value, "${A} 1 $$ $A");
});

Deno.test("missing variables and forms that are none are told, all of them by place", () => {
  const { problems, value } = expand({ a: "${NO}", b: ["x${1}"], c: "${OPEN", d: "${}" });
  assert.deepEqual(problems.map(({ path }) => path), ["a", "b[0]", "c", "d"]);
  assert.match(problems[0]?.got ?? "", /\$\{NO\}, which is not set/);
  assert.match(problems[1]?.wanted ?? "", /\$\$\{ for a plain/);
  assert.deepEqual(value, { a: "${NO}", b: ["x${1}"], c: "${OPEN", d: "${}" });
});

Deno.test("references remember what went in, and whether they are the whole text", () => {
  const { references } = expand({ a: "${A}", b: "x${A}${N:-d}" }, { A: "secret-value" });
  assert.deepEqual(references.get("a"), {
    raw: "${A}",
    values: ["secret-value"],
    variables: ["A"],
    whole: true,
  });
  assert.deepEqual(references.get("b")?.values, ["secret-value"]);
  assert.equal(references.get("b")?.whole, false);
  assert.equal(hideVariables("it is secret-value!", references.values()), "it is ${A}!");
});

property(
  "text without a reference stays as it is",
  fc.string({ unit: "binary" }).filter((text) => !text.includes("${")),
  (text) => assert.equal(expand(text).value, text),
);

property(
  "any text survives when its dollars are doubled",
  fc.string({ unit: fc.constantFrom("$", "{", "}", "A", "-", ":", "x") }),
  (text) => {
    const { value, problems } = expand(text.replaceAll("${", () => "$${"));
    // `$${` itself cannot be told from a doubled one: two dollars before a brace are one escape.
    if (text.includes("$${")) return;
    assert.equal(value, text);
    assert.deepEqual(problems, []);
  },
);
