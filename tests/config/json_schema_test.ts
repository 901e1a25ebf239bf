import assert from "node:assert/strict";
import { configJsonSchema } from "../../src/config/json_schema.ts";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";

/** Every schema inside a schema, with its path. */
function* schemasOf(node: JsonObject, path: string): Generator<[string, JsonObject]> {
  yield [path, node];
  for (const keyword of ["properties", "patternProperties"]) {
    const members = node[keyword];
    if (!isJsonObject(members)) continue;
    for (const [name, schema] of Object.entries(members)) {
      if (isJsonObject(schema)) yield* schemasOf(schema, `${path}/${keyword}/${name}`);
    }
  }
  if (isJsonObject(node.items)) yield* schemasOf(node.items, `${path}/items`);
  if (Array.isArray(node.anyOf)) {
    for (const [index, schema] of node.anyOf.entries()) {
      if (isJsonObject(schema)) yield* schemasOf(schema, `${path}/anyOf/${index}`);
    }
  }
}

Deno.test("loophub.schema.json is the schema of the code", async () => {
  const file = new URL("../../loophub.schema.json", import.meta.url);
  const published: unknown = JSON.parse(await Deno.readTextFile(file));
  assert.deepEqual(
    published,
    configJsonSchema(),
    "write configJsonSchema() to loophub.schema.json again",
  );
});

Deno.test("every setting is described", () => {
  for (const [path, schema] of schemasOf(configJsonSchema(), "")) {
    if (!isJsonObject(schema.properties)) continue;
    for (const [name, member] of Object.entries(schema.properties)) {
      assert.ok(
        isJsonObject(member) && typeof member.description === "string",
        `${path}/${name} has no description`,
      );
    }
  }
});

Deno.test("a setting with a default is not required in a file", () => {
  const schemas = new Map(schemasOf(configJsonSchema(), ""));
  const required = [...schemas].flatMap(([path, { required }]) =>
    Array.isArray(required) ? [`${path.split("/").at(-1)}: ${required.join(" ")}`] : []
  );
  // Those of pricing, of a tool choice (twice), of a public model, of a rule and of a workspace (twice) have no default.
  assert.deepEqual([...new Set(required)].toSorted(), [
    "1: dir",
    "1: targets",
    "1: uri",
    "3: name",
    "items: tier",
    "items: when targets",
    "pricing: inputPerMillion outputPerMillion",
    "skills: dir",
    "workspace: dir",
  ]);
});

Deno.test("objects are closed, and keywords of the hub stay inside", () => {
  for (const [path, schema] of schemasOf(configJsonSchema(), "")) {
    assert.ok(!("wanted" in schema) && !("secret" in schema), path);
    if (schema.type !== "object" || path.endsWith("/extra")) continue;
    assert.equal(schema.additionalProperties, false, path);
  }
});
