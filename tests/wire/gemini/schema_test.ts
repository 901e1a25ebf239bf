import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import { isJsonObject, type Json, type JsonSchema } from "../../../src/core/json.ts";
import { GEMINI } from "../../../src/wire/gemini/gemini_dialect.ts";
import { toGeminiSchema } from "../../../src/wire/gemini/encode_tools.ts";
import { readToolCorpus } from "../../operations/tool_corpus.ts";
import { at } from "../../support/at.ts";

const map = (schema: JsonSchema) => toGeminiSchema(schema, "tools[0]");

Deno.test("references are written out, with what stood beside them", () => {
  assert.deepEqual(
    map({
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: {
        a: { $ref: "#/definitions/A", description: "an a" },
        b: { type: "array", items: { $ref: "#/properties/a" } },
        c: { $ref: "#/nowhere" },
        d: true,
        $ref: { type: "string" },
      },
      definitions: { A: { type: "string", description: "A" } },
      additionalProperties: false,
    }),
    {
      type: "object",
      properties: {
        a: { type: "string", description: "an a" },
        b: { type: "array", items: { type: "string", description: "an a" } },
        c: {},
        d: {},
        $ref: { type: "string" },
      },
      additionalProperties: false,
    },
  );
});

Deno.test("a schema that holds itself keeps its reference, over $defs", () => {
  const made = map({
    type: "object",
    properties: { tree: { $ref: "#/definitions/Node" } },
    definitions: {
      Node: { type: "object", properties: { next: { $ref: "#/definitions/Node" } } },
    },
  });
  assert.deepEqual(made, {
    type: "object",
    properties: { tree: { type: "object", properties: { next: { $ref: "#/$defs/Node_0" } } } },
    $defs: { Node_0: { type: "object", properties: { next: { $ref: "#/$defs/Node_0" } } } },
  });
});

Deno.test("const and enums are said in texts and numbers", () => {
  assert.deepEqual(map({ const: "a", description: "d" }), { description: "d", enum: ["a"] });
  assert.deepEqual(map({ enum: ["a", null], type: ["string", "null"] }), {
    anyOf: [{ enum: ["a"] }, { type: "null" }],
  });
  assert.deepEqual(map({ const: true }), { type: "boolean" });
  assert.deepEqual(map({ properties: { const: { type: "string" }, enum: { const: 1 } } }), {
    properties: { const: { type: "string" }, enum: { enum: [1] } },
  });
});

Deno.test("references that multiply past all bounds are refused", () => {
  const defs: { [name: string]: JsonSchema } = { L0: { type: "string" } };
  for (let level = 1; level < 20; level++) {
    const ref = { $ref: `#/$defs/L${level - 1}` };
    defs[`L${level}`] = { type: "object", properties: { a: ref, b: ref } };
  }
  assert.throws(
    () => map({ $ref: "#/$defs/L19", $defs: defs }),
    (error) => error instanceof HubError && error.code === "invalid_request",
  );
});

/** Whether any schema in the value has a `$ref` beside other members, or points to nothing. */
function dangling(value: Json, defs: Json): boolean {
  if (Array.isArray(value)) return value.some((item) => dangling(item, defs));
  if (!isJsonObject(value)) return false;
  if (typeof value["$ref"] === "string") {
    const name = value["$ref"].replace("#/$defs/", "");
    return Object.keys(value).length > 1 || !isJsonObject(defs) || !(name in defs);
  }
  return Object.values(value).some((item) => dangling(item, defs));
}

Deno.test("the tools of real servers pass", () => {
  const corpus = readToolCorpus();
  assert.ok(corpus.length > 50, String(corpus.length));
  for (const { inputSchema } of corpus) {
    if (!isJsonObject(inputSchema)) continue;
    const { body } = GEMINI.encodeRequest({
      model: "m",
      messages: [{ role: "user", content: "x" }],
      tools: [{ type: "function", function: { name: "f", parameters: inputSchema } }],
    });
    const made = at(body, "tools", 0, "functionDeclarations", 0, "parametersJsonSchema");
    assert.ok(isJsonObject(made));
    assert.equal(made["type"], "object");
    assert.equal(dangling(made, made["$defs"] ?? null), false, JSON.stringify(made));
    if ("$ref" in inputSchema) continue;
    assert.deepEqual(
      Object.keys(made["properties"] ?? {}),
      Object.keys(inputSchema["properties"] ?? {}),
    );
  }
});
