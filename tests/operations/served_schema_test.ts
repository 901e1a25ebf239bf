import assert from "node:assert/strict";
import { ListToolsResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import fc from "fast-check";
import { isJsonObject, type Json, type JsonSchema } from "../../src/core/json.ts";
import {
  findOddity,
  servedInputSchema,
  servedOutputSchema,
} from "../../src/operations/served_schema.ts";
import { eachSubschema } from "../../src/operations/subschemas.ts";
import { property } from "../support/property.ts";

const object = (members: JsonSchema): JsonSchema => ({ type: "object", ...members });
const nested = (schema: Json): JsonSchema =>
  object({ properties: { a: object({ properties: { b: schema } }) } });

Deno.test("servedInputSchema: a schema that all clients take stays as it is, to the byte", () => {
  for (
    const schema of [
      object({}),
      object({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        additionalProperties: false,
      }),
      object({
        properties: { n: { type: ["integer", "null"], minimum: 0, default: null, "x-note": 1 } },
        required: ["n"],
        $defs: { d: { type: "string", pattern: "^a+$", enum: ["a"] } },
        additionalProperties: { $ref: "#/$defs/d" },
      }),
      nested({ anyOf: [{ type: "string" }, { type: "array", items: { type: "number" } }] }),
    ]
  ) assert.equal(servedInputSchema(schema), schema);
});

Deno.test("servedInputSchema: what some client refuses is repaired", () => {
  const odd: [string, JsonSchema][] = [
    ["a boolean property", object({ properties: { a: true } })],
    ["a property that nothing fits", object({ properties: { a: false } })],
    ["required that is null", object({ properties: {}, required: null })],
    ["required that is a flag", object({ properties: { a: { type: "string", required: true } } })],
    ["properties that are a list", object({ properties: [] })],
    ["properties that are null", object({ properties: null })],
    ["a union at the root", object({ anyOf: [{ properties: { a: {} } }] })],
    ["no type at the root", { properties: { a: {} } }],
    ["a nested boolean", nested(true)],
    ["a tuple of draft 7", nested({ type: "array", items: [{ type: "string" }] })],
    ["items: true", nested({ type: "array", items: true })],
    ["an unknown type", nested({ type: "any" })],
    ["no types", nested({ type: [] })],
    ["an empty enum", nested({ enum: [] })],
    ["an expression that none can compile", nested({ type: "string", pattern: "(" })],
    ["bounds of draft 4", nested({ type: "number", minimum: 1, exclusiveMinimum: true })],
    ["a reference to nowhere", nested({ $ref: "#/$defs/gone" })],
    ["a reference to the web", nested({ $ref: "https://example.com/schema.json" })],
    ["an id", object({ $id: "https://example.com/same" })],
    ["a description that is no text", nested({ type: "string", description: null })],
  ];
  for (const [what, schema] of odd) {
    assert.notEqual(findOddity(schema), null, what);
    const served = servedInputSchema(schema);
    assert.equal(findOddity(served), null, `${what}: ${findOddity(served)}`);
  }
});

Deno.test("servedOutputSchema: one that cannot be repaired without saying something else is left out", () => {
  assert.deepEqual(servedOutputSchema(object({ properties: { a: true }, required: null })), {
    type: "object",
    properties: { a: {} },
  });
  assert.equal(servedOutputSchema(nested({ items: [{ type: "string" }] })), null);
});

const odd = fc.constantFrom<Json>(null, true, false, [], {}, 1, "x", "(", ["a", 1], {
  type: "any",
});
const keywords = fc.constantFrom(
  ...[
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "anyOf",
    "$ref",
    "$id",
    "pattern",
    "minimum",
  ],
  ...["additionalProperties", "description", "$defs", "patternProperties", "not", "prefixItems"],
);
const { schema: arbitrary } = fc.letrec<{ schema: Json }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4 },
    odd,
    fc.dictionary(
      keywords,
      fc.oneof(
        odd,
        tie("schema"),
        fc.array(tie("schema"), { maxLength: 2 }),
        fc.dictionary(fc.constantFrom("a", "b", "__proto__"), tie("schema"), { maxKeys: 2 }),
      ),
      { maxKeys: 5 },
    ) as fc.Arbitrary<Json>,
  ),
}));

property(
  "served schemas: whatever a server lists, SDK v1 takes it and Ajv compiles it",
  arbitrary,
  (value) => {
    const source = object(isJsonObject(value) ? value : {});
    const inputSchema = servedInputSchema({ ...source, type: "object" });
    const outputSchema = servedOutputSchema({ ...source, type: "object" });
    const tool = { name: "t", inputSchema, ...outputSchema === null ? {} : { outputSchema } };
    ListToolsResultSchema.parse({ tools: [tool] });
    const validators = new AjvJsonSchemaValidator();
    for (const schema of [inputSchema, outputSchema ?? {}]) {
      validators.getValidator(schema as never);
      validators.getValidator(structuredClone(schema) as never);
    }
    eachSubschema(inputSchema, (part) => {
      for (
        const entry of Object.values(isJsonObject(part["properties"]) ? part["properties"] : {})
      ) {
        assert.ok(isJsonObject(entry));
      }
    });
  },
);
