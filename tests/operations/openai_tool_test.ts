import assert from "node:assert/strict";
import fc from "fast-check";
import { toStrictJsonSchema } from "openai/lib/transform";
import type { Json, JsonObject } from "../../src/core/json.ts";
import {
  capDescription,
  normalizeSchemaForOpenAI,
  operationToOpenAITool,
  toFunctionDefinition,
} from "../../src/operations/openai_tool.ts";
import { defineOperation, Type } from "../../src/operations/operation.ts";
import { toTool } from "../../src/operations/to_tool.ts";
import { createValidator } from "../../src/operations/validate_input.ts";
import { createWireNames } from "../../src/operations/wire_names.ts";
import { property } from "../support/property.ts";
import { findRefusals, findStrictRefusals } from "./openai_rules.ts";
import { at, oddShape, readToolCorpus } from "./tool_corpus.ts";

const corpus = readToolCorpus();
const plain = (schema: unknown): JsonObject => JSON.parse(JSON.stringify(schema));
const foreign = (id: string) =>
  normalizeSchemaForOpenAI(oddShape(id), { allowStrict: false }).parameters;

Deno.test("every tool of the corpus fits OpenAI's rules without strict mode", () => {
  assert.ok(corpus.length > 300);
  for (const { server, name, inputSchema } of corpus) {
    const { parameters, strict } = normalizeSchemaForOpenAI(inputSchema, { allowStrict: false });
    assert.equal(strict, false);
    assert.deepEqual(findRefusals(parameters), [], `${server} ${name}`);
  }
});

Deno.test("a schema that may be strict fits the strict rules and is what the oracle makes of it", () => {
  let strictOnes = 0;
  for (const { server, name, inputSchema } of corpus) {
    const { parameters, strict } = normalizeSchemaForOpenAI(inputSchema);
    const refusals = strict ? findStrictRefusals(parameters) : findRefusals(parameters);
    assert.deepEqual(refusals, [], `${server} ${name}`);
    if (!strict) continue;
    strictOnes++;
    assert.deepEqual(plain(toStrictJsonSchema(parameters)), parameters, `${server} ${name}`);
  }
  assert.ok(strictOnes > 200, `${strictOnes} strict`);
});

Deno.test("normalising twice changes nothing more", () => {
  for (const { server, name, inputSchema } of corpus) {
    const { parameters } = normalizeSchemaForOpenAI(inputSchema, { allowStrict: false });
    const again = normalizeSchemaForOpenAI(parameters, { allowStrict: false });
    assert.deepEqual(again.parameters, parameters, `${server} ${name}`);
  }
});

Deno.test("the source is left as it was", () => {
  const before = JSON.stringify(corpus);
  for (const { inputSchema } of corpus) normalizeSchemaForOpenAI(inputSchema);
  assert.equal(JSON.stringify(corpus), before);
});

Deno.test("definitions are carried, unreachable ones pruned, recursion kept", () => {
  assert.deepEqual(Object.keys(at(foreign("defs-ref"), "$defs") as JsonObject), ["ScheduleQuery"]);
  const tree = foreign("defs-recursive");
  assert.deepEqual(at(tree, "$defs", "node", "properties", "children", "items"), {
    $ref: "#/$defs/node",
  });
  const { parameters } = normalizeSchemaForOpenAI({
    type: "object",
    properties: { a: { $ref: "#/definitions/used" } },
    definitions: { used: { type: "string" }, unused: { type: "number" } },
  }, { allowStrict: false });
  assert.deepEqual(parameters, {
    type: "object",
    properties: { a: { $ref: "#/$defs/used" } },
    $defs: { used: { type: "string" } },
  });
});

Deno.test("references: siblings stay, other pointers move to $defs, dangling and remote ones become {}", () => {
  assert.equal(at(foreign("ref-with-siblings"), "properties", "cond", "description"), "condition");
  assert.deepEqual(at(foreign("ref-to-properties"), "properties", "b"), { $ref: "#/$defs/a" });
  assert.deepEqual(at(foreign("dangling-ref"), "properties", "s"), {});
  assert.deepEqual(at(foreign("external-ref"), "properties", "s"), {});
  assert.deepEqual(foreign("root-ref"), { type: "object", properties: { a: { type: "string" } } });
  const { notes } = normalizeSchemaForOpenAI(oddShape("external-ref"));
  assert.match(notes.join(), /example\.invalid/);
});

Deno.test("circular aliases end, and two definitions of one name both survive", () => {
  const { parameters } = normalizeSchemaForOpenAI({
    type: "object",
    properties: {
      loop: { $ref: "#/$defs/a" },
      one: { $ref: "#/$defs/x" },
      two: { $ref: "#/properties/deep/$defs/x" },
      deep: { type: "object", properties: {}, $defs: { x: { type: "number" } } },
    },
    $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" }, x: { type: "string" } },
  });
  assert.deepEqual(at(parameters, "properties", "loop"), {});
  assert.deepEqual(at(parameters, "$defs"), { x: { type: "string" }, x_2: { type: "number" } });
});

Deno.test("a union at the root becomes one object that tells the rule", () => {
  const parameters = foreign("root-oneof");
  assert.deepEqual(at(parameters, "required"), ["action"]);
  assert.deepEqual(at(parameters, "properties", "action"), {
    type: "string",
    enum: ["create", "update"],
  });
  assert.match(String(parameters.description), /action = "create", title \| action = "update", id/);
});

Deno.test("odd shapes are repaired", () => {
  assert.deepEqual(at(foreign("array-no-items"), "properties", "AppSlugs", "items"), {});
  for (const id of ["object-no-properties", "empty-schema", "schema-missing", "schema-null"]) {
    assert.deepEqual(foreign(id), { type: "object", properties: {} }, id);
  }
  assert.deepEqual(foreign("required-inside-properties"), {
    type: "object",
    properties: { coin: { type: "string" } },
    required: ["coin"],
  });
  assert.deepEqual(at(foreign("bool-schema"), "properties", "a"), {});
  assert.deepEqual(at(foreign("draft07-exclusive"), "properties", "n"), {
    type: "number",
    exclusiveMinimum: 0,
  });
  assert.deepEqual(at(foreign("type-array"), "properties", "a"), { type: ["string", "null"] });
  assert.deepEqual(at(foreign("prop-no-type"), "properties", "value"), { description: "any JSON" });
  assert.equal("$schema" in foreign("output-draft07"), false);
});

Deno.test("foreign headers, unknown formats and keywords go", () => {
  const { parameters } = normalizeSchemaForOpenAI({
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    properties: {
      url: { type: "string", format: "uri", "x-mcp-header": "Url", examples: ["x"] },
      day: { type: "string", format: "date", pattern: "^(?<y>\\d+)$" },
      code: { type: "string", pattern: "^[A-Z]{2}\\d{3}$" },
    },
  }, { allowStrict: false });
  assert.deepEqual(parameters.properties, {
    url: { type: "string" },
    day: { type: "string", format: "date" },
    code: { type: "string", pattern: "^[A-Z]{2}\\d{3}$" },
  });
});

Deno.test("references whose last steps are the same get names that all differ", () => {
  const names = ["a", "b", "a_2", "constructor"];
  const $defs = Object.fromEntries(names.map((name) => [name, { items: { title: name }, a: {} }]));
  const properties = Object.fromEntries(
    names.flatMap((name) => [
      [`${name} itself`, { $ref: `#/$defs/${name}` }],
      [`${name}'s items`, { $ref: `#/$defs/${name}/items` }],
      [`${name}'s a`, { $ref: `#/$defs/${name}/a` }],
    ]),
  );
  const { parameters } = normalizeSchemaForOpenAI({ type: "object", properties, $defs });
  assert.equal(Object.keys(parameters["$defs"] ?? {}).length, 3 * names.length);
});

Deno.test("schema bombs are bounded", () => {
  let deep: Json = { type: "string" };
  for (let level = 0; level < 5000; level++) deep = { type: "object", properties: { a: deep } };
  const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`p${n}`, { a: [] }]));
  for (const schema of [deep, { type: "object", properties: wide }]) {
    const { parameters, strict } = normalizeSchemaForOpenAI(schema);
    assert.equal(strict, false);
    assert.deepEqual(findRefusals(parameters), []);
  }
  const { parameters } = normalizeSchemaForOpenAI(deep);
  assert.ok(JSON.stringify(parameters).length < 4000);
});

Deno.test("a schema with __proto__ keys changes no prototype", () => {
  const evil = JSON.parse(
    '{"allOf":[{"__proto__":{"type":"string"},"properties":{"__proto__":{"type":"number"}}}],"__proto__":{"x":1}}',
  );
  const { parameters } = normalizeSchemaForOpenAI(evil);
  assert.equal(Object.getPrototypeOf(parameters), Object.prototype);
  assert.deepEqual(parameters, { type: "object", properties: {} });
});

Deno.test("strict: optional properties are united with null and their hints told in words", () => {
  const { parameters, strict } = normalizeSchemaForOpenAI(plain(Type.Object({
    city: Type.String({ minLength: 1, description: "Name of the city." }),
    days: Type.Optional(Type.Integer({ minimum: 1, default: 3 })),
    unit: Type.Optional(
      Type.Union([Type.Literal("C"), Type.Literal("F")], { description: "Unit" }),
    ),
    kind: Type.Optional(Type.Unsafe({ type: "string", enum: ["a", "b"] })),
  })));
  assert.equal(strict, true);
  assert.deepEqual(parameters, {
    type: "object",
    properties: {
      city: { type: "string", description: "Name of the city. At least 1 character" },
      days: { type: ["integer", "null"], minimum: 1, description: "Default: 3" },
      unit: {
        description: "Unit",
        anyOf: [{ type: "string", const: "C" }, { type: "string", const: "F" }, { type: "null" }],
      },
      kind: { anyOf: [{ type: "string", enum: ["a", "b"] }, { type: "null" }] },
    },
    required: ["city", "days", "unit", "kind"],
    additionalProperties: false,
  });
});

Deno.test("strict: TypeBox recursion and modules become $defs", () => {
  const node = Type.Recursive((This) =>
    Type.Object({ name: Type.String(), children: Type.Array(This) })
  );
  const { parameters, strict } = normalizeSchemaForOpenAI(plain(Type.Object({ tree: node })));
  assert.equal(strict, true);
  assert.deepEqual(findStrictRefusals(parameters), []);
  const module = Type.Module({
    Node: Type.Object({ next: Type.Optional(Type.Ref("Node")), name: Type.String() }),
  });
  const linked = normalizeSchemaForOpenAI(plain(module.Import("Node")));
  assert.equal(linked.strict, true);
  assert.deepEqual(findStrictRefusals(linked.parameters), []);
});

Deno.test("strict is refused where it would change the meaning", () => {
  const shapes = {
    record: Type.Record(Type.String(), Type.Number()),
    tuple: Type.Tuple([Type.String(), Type.Number()]),
    any: Type.Any(),
    open: Type.Object({ a: Type.String() }, { additionalProperties: true }),
    free: Type.Unsafe({ type: "object" }),
    oneOf: Type.Unsafe({ oneOf: [{ type: "string" }, { type: "number" }] }),
  };
  for (const [name, shape] of Object.entries(shapes)) {
    const { parameters, strict } = normalizeSchemaForOpenAI(plain(Type.Object({ x: shape })));
    assert.equal(strict, false, name);
    assert.deepEqual(findRefusals(parameters), [], name);
  }
});

Deno.test("an operation as an OpenAI tool", () => {
  const operation = defineOperation({
    namespace: "weather",
    name: "today",
    description: "Tells the weather",
    input: Type.Object({ city: Type.String() }),
    run: () => "sunny",
  });
  const wanted = {
    name: "weather_today",
    description: "Tells the weather",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
    strict: true,
  };
  assert.deepEqual(operationToOpenAITool(operation), { type: "function", function: wanted });
  const names = createWireNames(["weather.today"]);
  assert.deepEqual(toFunctionDefinition(toTool(operation), names), wanted);
});

Deno.test("descriptions are cut at 1024 characters, never inside one", () => {
  assert.equal(capDescription("x".repeat(1024)).length, 1024);
  const cut = capDescription("😀".repeat(1000));
  assert.ok(cut.length <= 1024 && cut.isWellFormed());
});

const names = fc.constantFrom("a", "b", "c", "$ref", "toString", "__proto__", "required", "type");
const schemas = fc.letrec<{ schema: unknown; leaf: unknown; junk: unknown }>((tie) => ({
  junk: fc.oneof(fc.boolean(), fc.constant(null), fc.string(), fc.integer(), fc.constant([])),
  leaf: fc.oneof(
    { weight: 1, arbitrary: tie("junk") },
    {
      weight: 4,
      arbitrary: fc.record({
        type: fc.constantFrom(
          "string",
          "number",
          "array",
          "object",
          "any",
          ["string", "null"],
          [],
          3,
        ),
        enum: fc.constantFrom(["a"], [1, 1], [], "x", [{ a: 1 }, { a: 1 }]),
        description: fc.oneof(fc.string(), fc.constant(null)),
        minimum: fc.constantFrom(1, "1"),
        exclusiveMinimum: fc.constantFrom(true, false, 2),
        format: fc.constantFrom("uri", "date"),
        $ref: fc.constantFrom("#", "#/$defs/a", "#/properties/a", "http://x", "#/%zz", 4),
      }, { requiredKeys: [] }),
    },
  ),
  schema: fc.oneof(
    { depthSize: "small" },
    tie("leaf"),
    fc.record({
      type: fc.constantFrom("object", "array", undefined),
      properties: fc.oneof(fc.dictionary(names, tie("schema"), { maxKeys: 3 }), tie("junk")),
      required: fc.oneof(fc.array(names, { maxLength: 3 }), tie("junk")),
      items: fc.oneof(tie("schema"), fc.array(tie("schema"), { maxLength: 2 })),
      additionalProperties: tie("schema"),
      anyOf: fc.oneof(fc.array(tie("schema"), { maxLength: 2 }), tie("junk")),
      allOf: fc.array(tie("schema"), { maxLength: 2 }),
      $defs: fc.dictionary(names, tie("schema"), { maxKeys: 2 }),
    }, { requiredKeys: [] }),
  ),
}));

property(
  "any schema at all is made acceptable, and strict ones keep the oracle's rules",
  schemas.schema,
  (schema) => {
    const { parameters, strict } = normalizeSchemaForOpenAI(schema);
    assert.deepEqual(strict ? findStrictRefusals(parameters) : findRefusals(parameters), []);
    if (strict) assert.deepEqual(plain(toStrictJsonSchema(parameters)), parameters);
  },
  { runs: 2000 },
);

property(
  "a validator of any schema never throws",
  fc.tuple(schemas.schema, fc.jsonValue()),
  ([schema, value]) => {
    createValidator(JSON.parse(JSON.stringify(schema ?? null)))(value as Json);
  },
  { runs: 500 },
);
