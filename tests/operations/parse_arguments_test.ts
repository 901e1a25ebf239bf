import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/core/json.ts";
import { parseArguments } from "../../src/operations/parse_arguments.ts";
import { property } from "../support/property.ts";
import { tookUnder } from "../support/test_hub.ts";

const read = (text: string) => {
  const parsed = parseArguments(text);
  return parsed.ok ? [parsed.input, ...parsed.repairs] : parsed.problem;
};

Deno.test("empty text is an empty object", () => {
  assert.deepEqual(read(""), [{}]);
  assert.deepEqual(read(" \n"), [{}]);
});

Deno.test("the three repairs, and each is named", () => {
  assert.deepEqual(read('{"a": 1}'), [{ a: 1 }]);
  assert.deepEqual(read('```json\n{"a": 1}\n```'), [{ a: 1 }, "code-fence"]);
  assert.deepEqual(read('```{"a": 1}```'), [{ a: 1 }, "code-fence"]);
  assert.deepEqual(read('{"a": [1, 2 , ], }'), [{ a: [1, 2] }, "trailing-comma"]);
  assert.deepEqual(read('"{\\"a\\": 1}"'), [{ a: 1 }, "double-encoding"]);
  assert.deepEqual(read('```\n{"a": [1,],}\n```'), [{ a: [1] }, "code-fence", "trailing-comma"]);
  assert.deepEqual(read('""'), [{}, "double-encoding"]);
  assert.deepEqual(read('{"a": ",}", "b": "\\",]"}'), [{ a: ",}", b: '",]' }]);
});

Deno.test("what was cut is never closed", () => {
  for (
    const text of [
      '{"a": 1',
      '{"a": "hel',
      '{"a": [1, 2',
      '```json\n{"a": 1}',
      '{"a": 1,',
      '{"path": "/tmp", "content": "x"',
      '"{\\"a\\": 1"',
      "{,}",
      "[1,,]",
      "{'a': 1}",
      "{a: 1}",
      '{"a": 1} {"b": 2}',
    ]
  ) {
    assert.equal(parseArguments(text).ok, false, text);
  }
});

Deno.test("two levels of double encoding stay a string, for the schema to refuse", () => {
  assert.deepEqual(read(JSON.stringify(JSON.stringify("{}"))), ["{}", "double-encoding"]);
});

Deno.test("hostile arguments are refused quickly", async () => {
  for (const key of ["__proto__", "constructor", "prototype"]) {
    assert.match(String(read(`{"a": [{"${key}": 1}]}`)), new RegExp(key));
  }
  await tookUnder(2000, () => {
    const startMs = performance.now();
    assert.match(String(read("[".repeat(5_000_000))), /64 levels/);
    return Promise.resolve(performance.now() - startMs);
  });
  assert.match(String(read("nonsense")), /not valid JSON/);
});

const tame = fc.jsonValue({ maxDepth: 5 }).filter((value) =>
  !/"(__proto__|constructor|prototype)":/.test(JSON.stringify(value))
) as fc.Arbitrary<Json>;

property("any JSON comes through as it is, fenced or not", tame, (value) => {
  if (typeof value === "string") return;
  const text = JSON.stringify(value, null, 1);
  assert.deepEqual(read(text), [JSON.parse(text)]);
  assert.deepEqual(read("```json\n" + text + "\n```"), [JSON.parse(text), "code-fence"]);
});

property("no proper beginning of an object is ever accepted", tame, (value) => {
  const text = JSON.stringify({ a: value, b: "x" });
  for (let cut = 1; cut < text.length; cut++) {
    assert.equal(parseArguments(text.slice(0, cut)).ok, false, text.slice(0, cut));
  }
}, { runs: 60 });

property("never throws", fc.string({ unit: "binary" }), (text) => {
  parseArguments(text);
});
