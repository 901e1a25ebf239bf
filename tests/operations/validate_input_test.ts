import assert from "node:assert/strict";
import { type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import fc from "fast-check";
import type { Json, JsonSchema } from "../../src/core/json.ts";
import { createValidator, validateInput } from "../../src/operations/validate_input.ts";
import { property } from "../support/property.ts";
import { readToolCorpus } from "./tool_corpus.ts";

const plain = (schema: TSchema): JsonSchema => JSON.parse(JSON.stringify(schema));
const problemsOf = (schema: JsonSchema, input: Json) => {
  const checked = validateInput(schema, input);
  return checked.ok ? [] : checked.problems;
};

Deno.test("problems name the pointer, what was wanted and what came", () => {
  const schema = plain(Type.Object({
    city: Type.String(),
    days: Type.Integer({ minimum: 1, maximum: 7 }),
    tags: Type.Array(Type.Object({ "a/b~": Type.Boolean() })),
  }));
  assert.deepEqual(problemsOf(schema, { days: 9, tags: [{ "a/b~": "maybe" }, 4] }), [
    { path: "/days", wanted: "at most 7", got: "the number 9" },
    { path: "/tags/0/a~1b~0", wanted: "boolean", got: 'the string "maybe"' },
    { path: "/tags/1", wanted: "object", got: "the number 4" },
    { path: "/city", wanted: "string", got: "nothing" },
  ]);
});

Deno.test("strings become numbers, booleans and JSON only where the schema wants those", () => {
  const schema = plain(Type.Object({
    n: Type.Number(),
    i: Type.Integer(),
    b: Type.Boolean(),
    list: Type.Array(Type.Integer()),
    object: Type.Object({ x: Type.Number() }),
    text: Type.String(),
    either: Type.Union([Type.String(), Type.Number()]),
    maybe: Type.Union([Type.Number(), Type.Null()]),
  }));
  const input = {
    n: " 1.5e2 ",
    i: "7",
    b: "false",
    list: "[1, 2]",
    object: '{"x": "3"}',
    text: "12",
    either: "12",
    maybe: "4",
  };
  assert.deepEqual(validateInput(schema, input), {
    ok: true,
    input: {
      n: 150,
      i: 7,
      b: false,
      list: [1, 2],
      object: { x: 3 },
      text: "12",
      either: "12",
      maybe: 4,
    },
  });
  assert.equal(input.n, " 1.5e2 ", "the given value is not touched");
});

Deno.test("what does not validate is not coerced", () => {
  const wrong: [JsonSchema, Json][] = [
    [plain(Type.Integer()), "1.5"],
    [plain(Type.Number()), ""],
    [plain(Type.Number()), "0x10"],
    [plain(Type.Number()), "Infinity"],
    [plain(Type.Boolean()), "True"],
    [plain(Type.Boolean()), "1"],
    [plain(Type.Array(Type.Integer())), '["a"]'],
    [plain(Type.Object({})), '{"__proto__": {}}'],
    [plain(Type.Null()), "null"],
    [plain(Type.String()), 5],
  ];
  for (const [schema, value] of wrong) {
    assert.equal(validateInput(schema, value).ok, false, JSON.stringify([schema, value]));
  }
  assert.equal(validateInput(plain(Type.Number()), "1", { coerce: false }).ok, false);
});

Deno.test("nulls of optional properties are left out only on request, and only where null is not allowed", () => {
  const schema = plain(Type.Object({
    a: Type.Optional(Type.String()),
    b: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    c: Type.Optional(Type.Object({ d: Type.Optional(Type.Number()) })),
    list: Type.Array(Type.Union([Type.Object({ e: Type.Optional(Type.Number()) }), Type.Null()])),
  }));
  const input = { a: null, b: null, c: { d: null }, list: [{ e: null }, null] };
  assert.deepEqual(validateInput(schema, input, { dropNulls: true }), {
    ok: true,
    input: { b: null, c: {}, list: [{}, null] },
  });
  assert.equal(validateInput(schema, input).ok, false);
  const required = plain(Type.Object({ a: Type.String() }));
  assert.equal(validateInput(required, { a: null }, { dropNulls: true }).ok, false);
});

Deno.test("a union takes an exact branch first and else reports the closest one", () => {
  const schema = plain(Type.Union([
    Type.Object({ kind: Type.Literal("circle"), radius: Type.Number() }),
    Type.Object({ kind: Type.Literal("box"), width: Type.Number(), height: Type.Number() }),
  ]));
  assert.deepEqual(problemsOf(schema, { kind: "box", width: 1 }), [
    { path: "/height", wanted: "number", got: "nothing" },
  ]);
  assert.deepEqual(problemsOf(plain(Type.Union([Type.Literal("a"), Type.Literal("b")])), "c"), [
    { path: "", wanted: '"a" or "b"', got: 'the string "c"' },
  ]);
  const both = plain(Type.Union([Type.Number(), Type.Boolean(), Type.String()]));
  assert.deepEqual(validateInput(both, "1"), { ok: true, input: "1" });
});

Deno.test("unknown properties, names and numbers of properties", () => {
  const closed = plain(Type.Object({ a: Type.Number() }, { additionalProperties: false }));
  assert.deepEqual(problemsOf(closed, { a: 1, toString: 2 }), [
    { path: "/toString", wanted: "one of a", got: "a property the schema does not know" },
  ]);
  assert.deepEqual(
    problemsOf({ type: "object", additionalProperties: { type: "number" } }, { x: "y" }),
    [
      { path: "/x", wanted: "number", got: 'the string "y"' },
    ],
  );
  assert.equal(
    validateInput(plain(Type.Record(Type.String(), Type.Number())), { a: "1" }).ok,
    true,
  );
  assert.equal(
    problemsOf({ type: "object", propertyNames: { maxLength: 2 } }, { abc: 1 }).length,
    1,
  );
  assert.equal(problemsOf({ type: "object", minProperties: 1 }, {}).length, 1);
});

Deno.test("references: local ones are followed, recursion too, others say nothing", () => {
  const tree = plain(
    Type.Recursive((This) => Type.Object({ name: Type.String(), sub: Type.Array(This) })),
  );
  assert.deepEqual(problemsOf(tree, { name: "a", sub: [{ name: 1, sub: [] }] }), [
    { path: "/sub/0/name", wanted: "string", got: "the number 1" },
  ]);
  const shared = { $ref: "#/$defs/s", $defs: { s: { type: "string" } } };
  assert.equal(problemsOf(shared, 1).length, 1);
  assert.equal(problemsOf({ $ref: "https://example.invalid/x" }, 1).length, 0);
});

Deno.test("a hostile schema or value ends in a problem, not in a crash or a stall", () => {
  assert.equal(validateInput({ allOf: [{ $ref: "#" }] }, 1).ok, false);
  const bomb: JsonSchema = {
    anyOf: Array.from({ length: 30 }, () => ({ type: "array", items: { $ref: "#" } })),
  };
  let nested: Json = 1;
  for (let level = 0; level < 60; level++) nested = [nested];
  const startMs = performance.now();
  assert.equal(validateInput(bomb, nested).ok, false);
  assert.ok(performance.now() - startMs < 20_000);
  for (let level = 0; level < 100_000; level++) nested = [nested];
  assert.match(JSON.stringify(problemsOf({}, nested)), /64 levels/);
  assert.match(JSON.stringify(problemsOf({}, JSON.parse('{"a": {"__proto__": 1}}'))), /__proto__/);
});

Deno.test("a long reference that stands in many places is followed once", () => {
  const schema = {
    type: "object",
    allOf: Array(40_000).fill({ $ref: `#/${"a/".repeat(20_000)}` }),
  };
  const startedMs = performance.now();
  assert.equal(createValidator(schema)({}).ok, true);
  assert.ok(performance.now() - startedMs < 5000);
});

Deno.test("foreign patterns never run, own ones do (T38)", () => {
  const evil = { type: "string", pattern: "^(a+)+$" };
  const text = "a".repeat(40) + "!";
  const startMs = performance.now();
  assert.equal(validateInput(evil, text).ok, true);
  assert.ok(performance.now() - startMs < 20_000);
  const own = { type: "string", pattern: "^[A-Z]{2}$" };
  assert.equal(validateInput(own, "ab", { patterns: "native" }).ok, false);
  const not = { not: { pattern: "^x" }, type: "string" };
  assert.equal(validateInput(not, "abc").ok, true);
  assert.equal(validateInput(not, "xbc", { patterns: "native" }).ok, false);
});

Deno.test("draft 4 bounds, tuples, multiples and repeated items", () => {
  assert.equal(problemsOf({ minimum: 0, exclusiveMinimum: true }, 0).length, 1);
  assert.equal(problemsOf({ multipleOf: 0.1 }, 0.3).length, 0);
  assert.equal(problemsOf({ multipleOf: 2 }, 3).length, 1);
  assert.equal(problemsOf({ uniqueItems: true }, [{ a: 1, b: 2 }, { b: 2, a: 1 }]).length, 1);
  const tuple = plain(Type.Tuple([Type.String(), Type.Number()]));
  assert.equal(problemsOf(tuple, ["a", "b"]).length, 1);
  assert.equal(problemsOf(tuple, ["a", 1, 2]).length > 0, true);
});

Deno.test("every schema of the corpus makes a validator that answers", () => {
  for (const { inputSchema } of readToolCorpus()) {
    const validate = createValidator(inputSchema ?? {});
    for (const value of [{}, null, "x", [], { a: { b: [1] } }]) {
      assert.equal(typeof validate(value).ok, "boolean");
    }
  }
});

const key = fc.constantFrom("a", "b", "c");
const schemas = fc.letrec<{ schema: TSchema }>((tie) => ({
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom<TSchema>(
      Type.String(),
      Type.String({ minLength: 2 }),
      Type.Number({ minimum: 0, exclusiveMaximum: 5 }),
      Type.Integer(),
      Type.Boolean(),
      Type.Null(),
      Type.Literal("a"),
      Type.Literal(1),
    ),
    fc.dictionary(key, fc.tuple(tie("schema"), fc.boolean()), { maxKeys: 3 }).chain((members) =>
      fc.boolean().map((closed) =>
        Type.Object(
          Object.fromEntries(
            Object.entries(members).map(([name, [schema, optional]]) => [
              name,
              optional ? Type.Optional(schema) : schema,
            ]),
          ),
          closed ? { additionalProperties: false } : {},
        )
      )
    ),
    tie("schema").map((item) => Type.Array(item, { maxItems: 2 })),
    tie("schema").map((value) => Type.Record(Type.String(), value)),
    fc.tuple(tie("schema"), tie("schema")).map(([a, b]) => Type.Union([a, b])),
    fc.tuple(tie("schema"), tie("schema")).map(([a, b]) => Type.Tuple([a, b])),
  ),
}));
const values = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom<Json>(null, true, 0, 1, 2.5, -3, "", "a", "abc"),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(key, tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

property(
  "without coercion it agrees with TypeBox, and leaves fitting values as they are",
  fc.tuple(schemas.schema, values.value),
  ([schema, value]) => {
    const checked = validateInput(plain(schema), value, { coerce: false, patterns: "native" });
    assert.equal(checked.ok, Value.Check(schema, value));
    if (checked.ok) assert.deepEqual(checked.input, value);
  },
  { runs: 2000 },
);

property(
  "what coercion lets through fits without it",
  fc.tuple(schemas.schema, values.value),
  ([schema, value]) => {
    const text = JSON.stringify(value);
    for (const input of [value, text]) {
      const checked = validateInput(plain(schema), input, { dropNulls: true });
      if (checked.ok) assert.ok(Value.Check(schema, checked.input));
    }
  },
  { runs: 1000 },
);
