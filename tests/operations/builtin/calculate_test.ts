import assert from "node:assert/strict";
import fc from "fast-check";
import { evaluateArithmetic } from "../../../src/operations/builtin/arithmetic.ts";
import { property } from "../../support/property.ts";

Deno.test("arithmetic with the usual precedence", () => {
  const known: [string, number][] = [
    ["1 + 2 * 3", 7],
    ["(1 + 2) * 3", 9],
    ["2 ^ 3 ^ 2", 512],
    ["-2 ^ 2", -4],
    ["(-2) ** 2", 4],
    ["2 ^ -1", 0.5],
    ["10 - 4 - 3", 3],
    ["7 % 4 * 2", 6],
    ["-7 % 4", -3],
    ["0.1 + 0.2", 0.3],
    ["1.2e3 / 4", 300],
    ["  .5 × 4 ÷ 2 − 1 ", 0],
    ["sqrt(3^2 + 4^2)", 5],
    ["max(1, 2, min(9, 7)) + abs(-3)", 10],
    ["round(2.345, 2)", 2.35],
    ["round(-2.5)", -3],
    ["mean(1, 2, 6) + sum(1, 2)", 6],
    ["floor(-1.5) + ceil(1.2) + trunc(-1.9)", -1],
    ["log(e) + log10(1000) + log2(8)", 7],
    ["sin(PI / 2)", 1],
    ["(1299 * 1.2 - 15) / 3", 514.6],
    ["--3", 3],
  ];
  for (const [expression, wanted] of known) {
    assert.equal(evaluateArithmetic(expression), wanted, expression);
  }
});

Deno.test("messages say what is wrong and where", () => {
  const wrong: [string, RegExp][] = [
    ["", /empty/],
    ["1 +", /A number is missing at 4, the end/],
    ["1 2", /operator is missing before 2 at 3/],
    ["(1 + 2", /\) is missing at 7, the end/],
    ["1 & 2", /Character "&" at 3/],
    ["1 / 0", /Division by zero/],
    ["5 % 0", /Remainder of a division by zero/],
    ["sqrt(-1)", /sqrt\(-1\) is not a real number/],
    ["(-8) ^ 0.5", /-8 \^ 0\.5 is not a real number/],
    ["10 ^ 400", /not a finite number/],
    ["foo(1)", /There is no foo; known are abs/],
    ["constructor(1)", /There is no constructor/],
    ["abs(1, 2)", /abs takes 1 numbers?, got 2/],
    ["abs 1", /\( is missing before 1 at 5/],
    ["round(1, 99)", /0 to 15 digits/],
    ["(".repeat(5000), /nests deeper than 100/],
    ["-".repeat(5000) + "1", /nests deeper than 100/],
    ["process.exit(1)", /Character "\." at 8|There is no process/],
  ];
  for (const [expression, wanted] of wrong) {
    assert.throws(() => evaluateArithmetic(expression), wanted, expression);
  }
});

interface Tree {
  text: string;
  value: number;
}

const trees = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small" },
    fc.integer({ min: 0, max: 999 }).map((value) => ({ text: String(value), value })),
    fc.tuple(tie("tree"), fc.constantFrom("+", "-", "*"), tie("tree")).map(([a, sign, b]) => ({
      text: `(${a.text}) ${sign}(${b.text})`,
      value: sign === "+"
        ? a.value + b.value
        : sign === "-"
        ? a.value - b.value
        : a.value * b.value,
    })),
    tie("tree").map((a) => ({ text: `-(${a.text})`, value: -a.value })),
    fc.tuple(tie("tree"), tie("tree")).map(([a, b]) => ({
      text: `max( ${a.text},${b.text})`,
      value: Math.max(a.value, b.value),
    })),
  ),
}));

property("any expression has the value of its tree", trees.tree, ({ text, value }) => {
  assert.equal(evaluateArithmetic(text) + 0, value + 0);
});

property("any text gives a number or a plain error", fc.string({ unit: "binary" }), (text) => {
  try {
    assert.ok(Number.isFinite(evaluateArithmetic(text)));
  } catch (error) {
    assert.equal((error as Error).name, "HubError");
  }
});
