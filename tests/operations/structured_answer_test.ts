import assert from "node:assert/strict";
import { createStructuredAnswer } from "../../src/operations/structured_answer.ts";

const OPTIONAL = {
  type: "object",
  properties: { a: { type: "integer" }, b: { type: "string" } },
  required: ["a"],
  additionalProperties: false,
};

Deno.test("any JSON object is one, also in a fence; nothing else is", () => {
  const { responseFormat, read } = createStructuredAnswer(null);
  assert.deepEqual(responseFormat, { name: "answer", schema: null, soft: true });
  assert.deepEqual(read('```json\n{"a":1}\n```'), { ok: true, value: { a: 1 } });
  for (const text of ["", " ", "Sure: {}", '{"a":', "[1]", "null", "5"]) {
    assert.equal(read(text).ok, false, text);
  }
});

Deno.test("a strict schema's nulls for what is optional are left out again", () => {
  const { responseFormat, read, instruction } = createStructuredAnswer(OPTIONAL);
  assert.match(instruction, /"required":\["a"\]/);
  assert.equal(responseFormat.strict, true);
  assert.deepEqual(read('{"a":1,"b":null}'), { ok: true, value: { a: 1 } });
  assert.deepEqual(read('{"a":"1"}').ok, false);
  const wrong = read('{"a":1,"c":2}');
  assert.match(wrong.ok ? "" : wrong.problem, /c/);
});

Deno.test("a schema that is no object's, or endless, is refused", () => {
  for (const schema of [{}, { type: "array" }, { type: ["object", "null"] }]) {
    assert.throws(() => createStructuredAnswer(schema), { code: "invalid_request" });
  }
  const long = { type: "object", description: "x".repeat(70_000) };
  assert.throws(() => createStructuredAnswer(long), /at most 65536/);
});

Deno.test("a foreign pattern is never run", () => {
  const schema = {
    type: "object",
    properties: { a: { type: "string", pattern: "^(a+)+$" } },
    required: ["a"],
  };
  const startedMs = performance.now();
  assert.equal(createStructuredAnswer(schema).read(`{"a":"${"a".repeat(40)}!"}`).ok, true);
  assert.ok(performance.now() - startedMs < 5000);
});
