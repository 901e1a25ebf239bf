import assert from "node:assert/strict";
import fc from "fast-check";
import {
  createChooser,
  mayFitPrefix,
  namePattern,
  spelledNames,
} from "../../src/core/name_pattern.ts";
import { property } from "../support/property.ts";

Deno.test("patterns choose names, and those behind an exclamation mark take away, wherever they stand", () => {
  const names = ["file.read", "file.write", "hub.wait", "github__create_issue"];
  const chosen = (...patterns: string[]) => names.filter(createChooser(patterns));
  assert.deepEqual(chosen("*"), names);
  assert.deepEqual(chosen(), []);
  assert.deepEqual(chosen("file.*", "hub.wait"), ["file.read", "file.write", "hub.wait"]);
  assert.deepEqual(chosen("file.*", "!*.write"), ["file.read"]);
  assert.deepEqual(chosen("!*.write", "file.*", "file.write"), ["file.read"]);
  assert.deepEqual(chosen("!github__*"), ["file.read", "file.write", "hub.wait"]);
  assert.deepEqual(chosen("!*"), []);
  assert.deepEqual(chosen("file.rea"), []);
});

Deno.test("names that patterns spell out are those without a star that take nothing away", () => {
  assert.deepEqual(spelledNames(["*", "hub.wait", "file.*", "!file.write"]), ["hub.wait"]);
});

Deno.test("stars stand for any text, wherever they are", () => {
  const cases: [pattern: string, fits: string[], fitsNot: string[]][] = [
    ["a*b", ["ab", "a.b", "axxb", "abab"], ["a", "b", "abc", "xab"]],
    ["*a*", ["a", "xax"], ["", "b"]],
    ["a*a", ["aa", "aba"], ["a"]],
    ["*ab*ab", ["abab", "xabyab"], ["ab", "aba"]],
    ["a**b", ["ab", "a-b"], ["ba"]],
    ["a.b", ["a.b"], ["axb"]],
    ["", [""], ["a"]],
  ];
  for (const [pattern, fits, fitsNot] of cases) {
    for (const name of fits) assert.ok(namePattern(pattern).test(name), `${pattern} ${name}`);
    for (const name of fitsNot) assert.ok(!namePattern(pattern).test(name), `${pattern} ${name}`);
  }
});

Deno.test("a pattern looks at each character of a name once, however many stars it has", () => {
  const looked: number[] = [];
  const name = "a".repeat(64);
  const spy = Object.assign(Object(name), {
    indexOf(text: string, at: number) {
      looked.push(at);
      return name.indexOf(text, at);
    },
  });
  assert.equal(namePattern(`${"*a".repeat(63)}*z*`).test(spy), false);
  assert.ok(looked.length <= 64, `${looked.length} looks`);
});

Deno.test("mayFitPrefix: says of a pattern whether any name behind the prefix can fit", () => {
  const fits = [
    "*",
    "files__*",
    "files__read_*",
    "f*",
    "files_*",
    "*_read",
    "files__read",
    "f*x*y",
  ];
  const not = ["hub.*", "files_x*", "file__*", "file", "", "g*files__read"];
  for (const pattern of fits) assert.equal(mayFitPrefix(pattern, "files__"), true, pattern);
  for (const pattern of not) assert.equal(mayFitPrefix(pattern, "files__"), false, pattern);
});

property(
  "mayFitPrefix: no name behind a prefix fits a pattern of which it says that none can",
  fc.tuple(
    fc.string({ unit: fc.constantFrom("a", "_", "*"), maxLength: 6 }),
    fc.string({ unit: fc.constantFrom("a", "_"), maxLength: 5 }),
    fc.string({ unit: fc.constantFrom("a", "_"), maxLength: 5 }),
  ),
  ([pattern, prefix, rest]) => {
    if (namePattern(pattern).test(prefix + rest)) assert.ok(mayFitPrefix(pattern, prefix));
  },
  { runs: 2000 },
);
