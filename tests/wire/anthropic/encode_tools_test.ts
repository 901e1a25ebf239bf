import assert from "node:assert/strict";
import {
  isJsonObject,
  type Json,
  type JsonObject,
  type JsonSchema,
} from "../../../src/core/json.ts";
import { encodeMessagesRequest } from "../../../src/wire/anthropic/encode_request.ts";
import { toStrictSchema } from "../../../src/wire/anthropic/strict_schema.ts";
import { toInputSchema } from "../../../src/wire/anthropic/tool_schema.ts";
import { readToolCorpus } from "../../operations/tool_corpus.ts";

const tool = (name: string, parameters: Json = { type: "object", properties: {} }, more = {}) => ({
  type: "function",
  function: { name, description: `Does ${name}`, parameters, ...more },
});
const THREE = ["a", "b", "c"].map((name) => tool(name));

function encode(chat: JsonObject): JsonObject {
  const messages = [{ role: "user", content: "Hi" }];
  return encodeMessagesRequest({ model: "m", messages, ...chat }, {}).body;
}

Deno.test("every form of tool_choice, with and without parallel calls", () => {
  const chosen = (chat: JsonObject) => {
    const { tools, tool_choice: choice } = encode({ tools: THREE, ...chat });
    return [(tools as JsonObject[]).map(({ name }) => name).join(""), choice];
  };
  const named = (name: string) => ({ type: "function", function: { name } });
  const allowed = (mode: string, ...names: string[]) => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: names.map(named) },
  });
  assert.deepEqual(chosen({}), ["abc", undefined]);
  assert.deepEqual(chosen({ tool_choice: "auto" }), ["abc", undefined]);
  assert.deepEqual(chosen({ tool_choice: "none" }), ["abc", { type: "none" }]);
  assert.deepEqual(chosen({ tool_choice: "required" }), ["abc", { type: "any" }]);
  assert.deepEqual(chosen({ tool_choice: named("b") }), ["abc", { type: "tool", name: "b" }]);
  assert.deepEqual(chosen({ tool_choice: allowed("auto", "a", "c") }), ["ac", undefined]);
  assert.deepEqual(chosen({ tool_choice: allowed("auto", "a") }), ["a", undefined]);
  assert.deepEqual(chosen({ tool_choice: allowed("required", "a", "c") }), ["ac", { type: "any" }]);
  const single = { disable_parallel_tool_use: true };
  assert.deepEqual(chosen({ parallel_tool_calls: false }), ["abc", { type: "auto", ...single }]);
  assert.deepEqual(chosen({ parallel_tool_calls: false, tool_choice: "required" }), [
    "abc",
    { type: "any", ...single },
  ]);
  assert.deepEqual(chosen({ parallel_tool_calls: false, tool_choice: "none" }), [
    "abc",
    { type: "none" },
  ]);
  assert.throws(() => chosen({ tool_choice: "maybe" }), /tool_choice must be/);
  assert.throws(() => chosen({ tool_choice: allowed("auto", "x") }), /allows none of the tools/);
  assert.equal("tool_choice" in encode({ tool_choice: "required" }), false);
});

Deno.test("tools carry their breakpoints, and strict where the API can hold to the schema", () => {
  const closed = { type: "object", properties: { a: { type: "string" } }, required: ["a"] };
  const mark = { cache_control: { type: "ephemeral" } };
  const tools = [
    { ...tool("a", closed, { strict: true }), ...mark },
    tool("b", { type: "object" }, { strict: true, ...mark }),
    tool("c"),
  ];
  assert.deepEqual(encode({ tools })["tools"], [
    {
      name: "a",
      description: "Does a",
      input_schema: { ...closed, additionalProperties: false },
      strict: true,
      ...mark,
    },
    { name: "b", description: "Does b", input_schema: { type: "object" }, ...mark },
    { name: "c", description: "Does c", input_schema: { type: "object", properties: {} } },
  ]);
  const strict = (chat: JsonObject) =>
    (encode(chat)["tools"] as JsonObject[]).filter((one) => one["strict"] === true).length;
  const many = Array.from({ length: 30 }, (_, at) => tool(`t${at}`, closed, { strict: true }));
  assert.equal(strict({ tools: many }), 20);
  assert.equal(strict({ tools: many, model: "claude-3-7-sonnet-latest" }), 0);
  const optional = { type: "object", properties: { a: { type: "string" }, b: { type: "null" } } };
  const loose = Array.from({ length: 20 }, (_, at) => tool(`t${at}`, optional, { strict: true }));
  assert.equal(strict({ tools: loose }), 12);
});

Deno.test("a choice at the root becomes one object that admits all of it", () => {
  const schema: JsonSchema = {
    type: "object",
    properties: { id: { type: "string" } },
    required: ["id"],
    anyOf: [
      { properties: { kind: { const: "a" }, x: { type: "number" } }, required: ["kind", "x"] },
      { properties: { kind: { const: "b" } }, required: ["kind"], additionalProperties: false },
    ],
  };
  const { description, ...made } = toInputSchema(schema, "p");
  assert.deepEqual(made, {
    type: "object",
    properties: {
      id: { type: "string" },
      kind: { anyOf: [{ const: "a" }, { const: "b" }] },
      x: { type: "number" },
    },
    required: ["id", "kind"],
  });
  assert.equal(
    description,
    `The input must match this JSON Schema: ${JSON.stringify({ anyOf: schema["anyOf"] })}`,
  );
});

Deno.test("references and allOf at the root are written out", () => {
  assert.deepEqual(
    toInputSchema({
      $ref: "#/$defs/Q",
      $defs: {
        Q: { allOf: [{ $ref: "#/$defs/R" }], properties: { a: {} } },
        R: { required: ["a"] },
      },
    }, "p"),
    { type: "object", properties: { a: {} }, required: ["a"] },
  );
  assert.throws(() => toInputSchema({ type: "array" }, "p"), /p must describe an object/);
  assert.deepEqual(toInputSchema(null, "p"), { type: "object", properties: {} });
  assert.deepEqual(toInputSchema({}, "p"), { type: "object", properties: {} });
});

Deno.test("words of older drafts become those of 2020-12", () => {
  const properties = {
    pair: { type: "array", items: [{ type: "string" }], additionalItems: false },
    more: { type: "number", minimum: 1, exclusiveMinimum: true, exclusiveMaximum: false },
    items: { type: "array", items: { type: "string" } },
  };
  const schema = {
    type: "object",
    properties,
    dependencies: { a: ["b"], c: { minProperties: 1 } },
  };
  assert.deepEqual(toInputSchema(schema, "p"), {
    type: "object",
    properties: {
      pair: { type: "array", prefixItems: [{ type: "string" }], items: false },
      more: { type: "number", exclusiveMinimum: 1 },
      items: { type: "array", items: { type: "string" } },
    },
    dependentRequired: { a: ["b"] },
    dependentSchemas: { c: { minProperties: 1 } },
  });
});

Deno.test("schemas of real tools pass: an object at the root, no choice there", () => {
  let count = 0;
  for (const { server, name, inputSchema } of readToolCorpus()) {
    if (!isJsonObject(inputSchema)) continue;
    const type = inputSchema["type"] ?? "object";
    if (type !== "object") continue;
    const schema = toInputSchema(inputSchema, name);
    const where = `${server} ${name}`;
    assert.equal(schema["type"], "object", where);
    for (const word of ["oneOf", "anyOf", "allOf", "$ref"]) assert.ok(!(word in schema), where);
    for (const property of Object.keys(inputSchema["properties"] ?? {})) {
      assert.ok(property in (schema["properties"] as JsonObject), `${where} ${property}`);
    }
    count++;
  }
  assert.ok(count > 300, String(count));
});

Deno.test("a response is held to a schema, else the model is told of it", () => {
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    properties: { age: { type: "integer", minimum: 0, description: "Years" } },
    required: ["age"],
  };
  const asked = (json_schema: JsonObject | null, model = "claude-sonnet-4-5") => {
    const response_format = json_schema === null
      ? { type: "json_object" }
      : { type: "json_schema", json_schema };
    const { output_config: config, system } = encode({ model, response_format });
    return { config, said: JSON.stringify(system ?? null) };
  };
  const { config, said } = asked({ name: "p", schema, strict: true });
  assert.equal(said, "null");
  assert.deepEqual(config, {
    format: {
      type: "json_schema",
      schema: {
        type: "object",
        properties: { age: { type: "integer", description: "Years\n\n{minimum: 0}" } },
        required: ["age"],
        additionalProperties: false,
      },
    },
  });
  assert.match(asked(null).said, /one JSON object and nothing else/);
  const open = { type: "object", additionalProperties: { type: "string" } };
  assert.match(asked({ name: "p", schema: open }).said, /additionalProperties/);
  assert.equal(asked({ name: "p", schema: open }).config, undefined);
  assert.throws(() => asked({ name: "p", schema: open, strict: true }), /cannot hold/);
  assert.match(asked({ name: "p", schema }, "claude-3-haiku").said, /matches this JSON Schema/);
});

Deno.test("what structured outputs do not know cannot be strict", () => {
  const inside = (schema: Json) => toStrictSchema({ type: "object", properties: { a: schema } });
  for (
    const schema of [
      {},
      true,
      { type: "object" },
      { type: "object", properties: {}, additionalProperties: true },
      { type: "array", prefixItems: [] },
      { enum: [{ a: 1 }] },
      { type: "string", not: {} },
      { type: "object", patternProperties: {} },
    ]
  ) assert.equal(inside(schema), null, JSON.stringify(schema));
  const tree = { type: "object", properties: { next: { $ref: "#" } } };
  assert.equal(toStrictSchema(tree), null);
  const union = inside({ oneOf: [{ type: ["string", "null"] }, { const: 1 }] });
  assert.deepEqual([union?.unions, union?.optional], [2, 1]);
});

Deno.test("a choice at the root keeps properties that are called like members of every object", () => {
  const properties = JSON.parse('{"constructor":{"type":"string"},"__proto__":{},"toString":{}}');
  const made = toInputSchema({ type: "object", anyOf: [{ type: "object", properties }] }, "p");
  assert.deepEqual(made["properties"], properties);
});
