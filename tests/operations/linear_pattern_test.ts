import assert from "node:assert/strict";
import fc from "fast-check";
import { createLinearPattern } from "../../src/operations/linear_pattern.ts";
import { property } from "../support/property.ts";

const found = (pattern: string, text: string) =>
  createLinearPattern(pattern)?.isFoundIn(text, { steps: 1_000_000 });

const atom = fc.constantFrom(
  "a",
  "b",
  ".",
  "[^a]",
  "[a-c\\]]",
  "\\d",
  "\\W",
  "\\u{1F600}",
  "\\uD83D\\uDE00",
  "\\p{Lu}",
  "\\x41",
  "\\n",
  "\\/",
  "^",
  "$",
  "\\b",
  "\\B",
  "\u{1F600}",
);
const { pattern } = fc.letrec<{ pattern: string }>((tie) => ({
  pattern: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    atom,
    fc.tuple(tie("pattern"), tie("pattern")).map(([a, b]) => a + b),
    fc.tuple(tie("pattern"), tie("pattern")).map(([a, b]) => `(?:${a}|${b})`),
    fc.tuple(tie("pattern"), tie("pattern")).map(([a, b]) => `${a}|${b}`),
    fc.tuple(
      tie("pattern"),
      fc.constantFrom("*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}", "{1,3}?"),
      fc.constantFrom("(", "(?:", "(?<name>"),
    ).filter(([inner, , open]) => open !== "(?<name>" || !inner.includes("<name>"))
      .map(([inner, times, open]) => `${open}${inner})${times}`),
  ),
}));
const text = fc.array(
  fc.constantFrom("a", "b", "c", "A", "1", "]", "\n", "/", "\u{1F600}", "\ud83d"),
  {
    maxLength: 6,
  },
).map((chars) => chars.join(""));

property(
  "a pattern is found where the engine of the language finds it",
  fc.tuple(pattern, text),
  ([pattern, text]) => {
    // The engine finds \B between the halves of a character, where by the language nothing is looked for.
    if (pattern.includes("\\B") && text.includes("\u{1F600}")) return;
    let native: RegExp;
    try {
      native = new RegExp(pattern, "u");
    } catch {
      return;
    }
    assert.equal(found(pattern, text), native.test(text), `${pattern} in ${JSON.stringify(text)}`);
  },
  { runs: 5000 },
);

Deno.test("what looks around or refers back, is invalid or too large, is no pattern", () => {
  const refused = [
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    "(?<!a)",
    "(a)\\1",
    "(?<n>a)\\k<n>",
    "(?i:a)",
    "(",
    "a{2,1}",
    "\\-",
    "((a{99}){99}){99}",
    "((?:){9999}){9999}",
    "a{999999999}",
    "a".repeat(1001),
  ];
  for (const pattern of refused) assert.equal(createLinearPattern(pattern), null, pattern);
});

Deno.test("time grows with the text alone, and ends with the steps", () => {
  const text = "a".repeat(20_000) + "!";
  for (const pattern of ["^(a+)+$", "^(a|a)*$", "(a*)*b", "^([a-zA-Z]+)*$"]) {
    assert.equal(found(pattern, text), false, pattern);
  }
  assert.equal(createLinearPattern("(a{0,90}){90}b")?.isFoundIn(text, { steps: 10_000 }), null);
});
