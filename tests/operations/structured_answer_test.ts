import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
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

Deno.test("a pattern is checked, and none can take long", () => {
  const schema = {
    type: "object",
    properties: { a: { type: "string", pattern: "^(a+)+$" } },
    required: ["a"],
  };
  const { read } = createStructuredAnswer(schema);
  const startedMs = performance.now();
  assert.equal(read(`{"a":"${"a".repeat(40)}"}`).ok, true);
  assert.equal(read(`{"a":"${"a".repeat(40)}!"}`).ok, false);
  const heavy = { ...schema, properties: { a: { pattern: "(a{0,90}){90}b" } } };
  const spent = createStructuredAnswer(heavy).read(`{"a":"${"a".repeat(100_000)}"}`);
  assert.match(spent.ok ? "" : spent.problem, /bounded time/);
  assert.ok(performance.now() - startedMs < 20_000);
});

/** The schema of the one property `a`, texts of it that fit, and texts that do not. */
const RULES: [rule: string, schema: Json, fits: string[], not: string[]][] = [
  ["not", { not: { type: "string", pattern: "^x" } }, ['"y"', "1"], ['"xy"']],
  [
    "conditions",
    {
      if: { required: ["b"] },
      then: { required: ["c"] },
      else: { required: ["d"] },
      type: "object",
    },
    ['{"b":1,"c":1}', '{"d":1}'],
    ['{"b":1,"d":1}', '{"c":1}'],
  ],
  ["one of", { oneOf: [{ type: "integer" }, { minimum: 5 }] }, ["4", "5.5"], ["6", "4.5"]],
  [
    "names by pattern",
    {
      type: "object",
      properties: { xb: {} },
      patternProperties: { "^x": { type: "integer" } },
      additionalProperties: false,
    },
    ['{"xa":1,"xb":2}'],
    ['{"ya":1}', '{"xa":"1"}', '{"xb":"2"}'],
  ],
  ["names", { propertyNames: { pattern: "^x" } }, ['{"xa":1}'], ['{"a":1}']],
  ["no names", { propertyNames: false }, ["{}"], ['{"a":1}']],
  ["contains", { contains: { const: 1 }, maxContains: 2 }, ["[1]", "[1,0,1]"], ["[]", "[1,1,1]"]],
  ["dependents", { dependentRequired: { b: ["c"] } }, ['{"b":1,"c":1}', "{}"], ['{"b":1}']],
  [
    "dependents' schemas",
    { dependentSchemas: { b: { minProperties: 2 } } },
    ['{"b":1,"c":1}', '{"c":1}'],
    ['{"b":1}'],
  ],
  ["dependencies", { dependencies: { b: ["c"], c: { maxProperties: 2 } } }, ['{"b":1,"c":1}'], [
    '{"b":1}',
    '{"b":1,"c":1,"d":1}',
  ]],
  ["tuples", { prefixItems: [{ const: 1 }], items: false }, ["[1]"], ["[1,2]", "[2]"]],
  ["date-time", { format: "date-time" }, ['"2026-02-03T04:05:06Z"', "1"], [
    '"2026-02-30T04:05:06Z"',
  ]],
  ["date", { format: "date" }, ['"2026-02-28"'], ['"2026-02-29"', '"28.2.2026"']],
  ["time", { format: "time" }, ['"04:05:06Z"'], ['"25:00:00Z"', '"noon"']],
  ["duration", { format: "duration" }, ['"P1DT2H"', '"P3W"'], ['"P"', '"PT"', '"1 day"']],
  ["email", { format: "email" }, ['"a@b.example"'], ['"a@b"', '"a"']],
  ["hostname", { format: "hostname" }, ['"a.b-c.example"'], ['"-a"', '"a..b"', '""']],
  ["ipv4", { format: "ipv4" }, ['"127.0.0.1"'], ['"127.0.0"', '"256.0.0.1"', '"01.0.0.1"']],
  ["ipv6", { format: "ipv6" }, ['"::1"', '"2001:db8::1.2.3.4"'], ['":::"', '"1"', '"::1]:80"']],
  ["uri", { format: "uri" }, ['"https://a.example/b"'], ['"a"']],
  ["uuid", { format: "uuid" }, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567"']],
  ["int32", { format: "int32" }, ["1", '"x"'], ["2147483648", "1.5"]],
];

for (const [rule, schema, fits, not] of RULES) {
  Deno.test(`an answer is held to the rules of its schema: ${rule}`, () => {
    const { read } = createStructuredAnswer({ type: "object", properties: { a: schema } });
    for (const value of fits) assert.equal(read(`{"a":${value}}`).ok, true, value);
    for (const value of not) assert.equal(read(`{"a":${value}}`).ok, false, value);
  });
}

Deno.test("a schema with a rule that is not checked is refused, with the keyword and its place", () => {
  const refused: [Json, RegExp][] = [
    [{ format: "iri" }, /#\/properties\/a\/format is "iri", wanted one of date-time/],
    [{ unevaluatedProperties: false }, /#\/properties\/a\/unevaluatedProperties/],
    [{ $dynamicRef: "#a" }, /\$dynamicRef/],
    [{ $ref: "https://a.example/schema" }, /#\/properties\/a\/\$ref .*leads nowhere/],
    [{ $ref: "#/other", $defs: {} }, /#\/other\/format/],
    [{ pattern: "(?=a)" }, /#\/properties\/a\/pattern/],
    [{ pattern: "(a)\\1" }, /pattern/],
    [{ pattern: "(" }, /pattern/],
    [{ patternProperties: { "a/(?!b)": {} } }, /#\/properties\/a\/patternProperties\/a~1\(\?!b\)/],
    [
      { not: { if: { items: [{ format: "iri" }] } } },
      /#\/properties\/a\/not\/if\/items\/0\/format/,
    ],
    [{ type: "strng" }, /#\/properties\/a\/type/],
    [{ required: "b" }, /required/],
    [{ minimum: "1" }, /minimum/],
    [{ minItems: -1 }, /minItems/],
    [{ anyOf: {} }, /anyOf is no list/],
    [{ not: 1 }, /not is no schema/],
  ];
  for (const [schema, message] of refused) {
    const root = { type: "object", properties: { a: schema }, other: { format: "iri" } };
    assert.throws(() => createStructuredAnswer(root), { code: "invalid_request", message });
  }
});

Deno.test("many large patterns are refused before they are made", () => {
  const patterns = Array.from({ length: 1500 }, (_, at) => ({ pattern: `a{${9000 - at}}` }));
  const startedMs = performance.now();
  assert.throws(() => createStructuredAnswer({ type: "object", anyOf: patterns }), /too large/);
  const same = patterns.map(() => ({ pattern: "[a-c]{0,4000}" }));
  assert.equal(createStructuredAnswer({ type: "object", anyOf: same }).read("{}").ok, true);
  assert.ok(performance.now() - startedMs < 5000);
});

Deno.test("a short schema whose references stand for very many parts is taken in at once", () => {
  const part = (
    at: number,
  ) => [`d${at}`, { allOf: Array(40).fill({ $ref: `#/$defs/d${at + 1}` }) }];
  const $defs = { ...Object.fromEntries(Array.from({ length: 7 }, (_, at) => part(at))), d7: {} };
  for (const root of [{ $ref: "#/$defs/d0" }, { anyOf: [{ $ref: "#/$defs/d0" }] }]) {
    const schema = { type: "object", $defs, ...root };
    assert.equal(createStructuredAnswer(schema).responseFormat.strict, false);
  }
});

const HEAVY: [what: string, schema: Json, value: Json][] = [
  ["many schemas over many properties", Array(4000).fill({}), keys(2000)],
  ["long strings", Array(3000).fill({ minLength: 1 }), "x".repeat(100_000)],
  [
    "long lists",
    Array(2000).fill({ uniqueItems: true }),
    Array.from({ length: 5000 }, (_, at) => at),
  ],
  ["names that are required", Array(1000).fill({ $ref: "#/$defs/names" }), {}],
  ["patterns of names", Array(500).fill({ patternProperties: { a: {}, b: {} } }), keys(2000)],
];

function keys(count: number): Json {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 0]));
}

for (const [what, allOf, value] of HEAVY) {
  Deno.test(`what a check looks at is bounded: ${what}`, () => {
    const names = { required: Array.from({ length: 2000 }, (_, at) => `n${at}`) };
    const schema = { type: "object", properties: { a: { allOf } }, $defs: { names } };
    const { read } = createStructuredAnswer(schema);
    const answer = read(JSON.stringify({ a: value }));
    assert.ok(answer.ok || answer.problem.length < 100_000);
    assert.match(answer.ok ? "" : answer.problem, what.startsWith("names") ? /n0/ : /bounded time/);
  });
}

Deno.test("long lists and many properties that few rules are about are checked", () => {
  const { read } = createStructuredAnswer({ type: "object", properties: { a: { type: "array" } } });
  const value = { a: Array(1_000_000).fill(1), b: keys(100_000) };
  assert.equal(read(JSON.stringify(value)).ok, true);
});

Deno.test("many literals, and long ones, are compared in bounded time", () => {
  const choices = Array.from({ length: 4000 }, (_, at) => ({ a: [at] }));
  const long = { const: [["x".repeat(50_000)]] };
  const startedMs = performance.now();
  const { read } = createStructuredAnswer({
    type: "object",
    properties: {
      a: { items: { enum: choices } },
      b: { allOf: Array(200).fill({ $ref: "#/$defs/c" }) },
    },
    $defs: {
      c: { allOf: Array(50).fill({ $ref: "#/$defs/long" }) },
      long: { enum: [{ a: 1 }, "[1]"] },
    },
  });
  const items = Array(2000).fill({ a: [3999] });
  assert.deepEqual(read(JSON.stringify({ a: items })), { ok: true, value: { a: items } });
  assert.equal(read(JSON.stringify({ a: [{ a: [4000] }] })).ok, false);
  assert.equal(read('{"b":"[1]"}').ok, true);
  assert.equal(read('{"b":[1]}').ok, false);
  assert.equal(read(JSON.stringify({ b: long })).ok, false);
  assert.ok(performance.now() - startedMs < 5000);
});

Deno.test("a check that was cut short finds nothing right", () => {
  const endless = { allOf: [{ $ref: "#/$defs/endless" }] };
  const schema = { type: "object", not: { $ref: "#/$defs/endless" }, $defs: { endless } };
  const read = createStructuredAnswer(schema).read("{}");
  assert.match(read.ok ? "" : read.problem, /bounded time/);
});

Deno.test("a number that cannot be kept is a problem, never another number", () => {
  const { read } = createStructuredAnswer(null);
  for (
    const lost of ["1e999", "-1e400", "9007199254740993", "-12345678901234567890", "1e-999"]
  ) {
    const answer = read(`{"a":[{"b\\"":"1e999"},${lost}]}`);
    assert.ok(!answer.ok && answer.problem.includes(`the number ${lost},`), lost);
  }
  for (
    const kept of [
      "9007199254740992",
      "-27755127132701190",
      "1e300",
      "6.02214076e23",
      "0e999",
      "3.14159265358979323846",
    ]
  ) {
    assert.deepEqual(read(`{"a":${kept},"b":"1e999"}`), {
      ok: true,
      value: { a: Number(kept), b: "1e999" },
    });
  }
});
