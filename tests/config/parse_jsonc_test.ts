import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/core/json.ts";
import { parseJsonc } from "../../src/config/parse_jsonc.ts";
import { property } from "../support/property.ts";

Deno.test("comments, trailing commas and a byte order mark are allowed", () => {
  const parsed = parseJsonc(`\uFEFF{ // line
    /* block */ "a": [1, 2,], "b": { "c": "// no comment", }, }`);
  assert.deepEqual(parsed.syntaxProblems, []);
  assert.deepEqual(parsed.value, { a: [1, 2], b: { c: "// no comment" } });
});

Deno.test("settings know their line; missing ones that of what is around them", () => {
  const { lineOf } = parseJsonc(`{\n"a": {\n"b.c": [\n1,\n2]}}`);
  assert.equal(lineOf(["a"]), 2);
  assert.equal(lineOf(["a", "b.c"]), 3);
  assert.equal(lineOf(["a", "b.c", 1]), 5);
  assert.equal(lineOf(["a", "missing", "deep"]), 2);
  assert.equal(lineOf(["none"]), undefined);
});

Deno.test("a name that comes twice is told, and the first one counts", () => {
  const { value, problems } = parseJsonc(`{"a": 1,\n"a": 2, "b": {"x": 1, "x": 1}}`);
  assert.deepEqual(value, { a: 1, b: { x: 1 } });
  assert.deepEqual(problems.map(({ path, line }) => [path, line]), [["a", 2], ["b.x", 2]]);
  assert.match(problems[0]?.got ?? "", /second time, after line 1/);
});

Deno.test("each violation has line, column, what came and what was wanted", () => {
  const cases: [string, string, RegExp, RegExp][] = [
    ["{", "line 1, column 2", /the end of the file/, /closing "}"/],
    ["[1", "line 1, column 3", /the end of the file/, /closing "\]"/],
    [`{"a" 1}`, "line 1, column 6", /a number/, /a colon/],
    [`{"a": 1 "b": 2}`, "line 1, column 9", /text in double quotes/, /a comma/],
    [`{a: 1}`, "line 1, column 2", /a word without quotes/, /a value/],
    [`{'a': 1}`, "line 1, column 2", /text in single quotes/, /a value/],
    [`{"a": }`, "line 1, column 7", /"}"/, /a value/],
    [`{"a": 1} 2`, "line 1, column 10", /a number/, /the end of the file/],
    [`{"a": "x`, "line 1, column 7", /without its closing quote/, /closing double quote/],
    [`{"a": "\\q"}`, "line 1, column 7", /unknown escape/, /one of/],
    [`{"a": "\t"}`, "line 1, column 7", /control character/, /an escape/],
    [`{"a": 1 /* x`, "line 1, column 9", /inside a comment/, /a comment/],
    ["", "line 1, column 1", /the end of the file/, /a value/],
  ];
  for (const [text, path, got, wanted] of cases) {
    const [first] = parseJsonc(text).syntaxProblems;
    assert.ok(first !== undefined, text);
    assert.equal(first.path, path, text);
    assert.match(first.got, got, text);
    assert.match(first.wanted, wanted, text);
  }
});

Deno.test("a file full of violations gives a bounded list", () => {
  assert.equal(parseJsonc(`{${"x ".repeat(500)}`).syntaxProblems.length, 20);
});

property("plain JSON means what JSON.parse says", fc.jsonValue(), (value) => {
  // -0 is written as 0, and __proto__ is refused by design.
  const text = JSON.stringify(value);
  if (text.includes("__proto__")) return;
  const parsed = parseJsonc(text);
  assert.deepEqual(parsed.syntaxProblems, []);
  assert.deepEqual(parsed.value, JSON.parse(text) as Json);
});

property("no text makes the parser throw", fc.string({ unit: "binary", maxLength: 60 }), (text) => {
  const parsed = parseJsonc(text);
  assert.ok(parsed.syntaxProblems.length > 0 || parsed.value !== undefined);
});
