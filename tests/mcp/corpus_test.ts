import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { foreignParameters, foreignValidator } from "../../src/operations/foreign_schema.ts";
import { createWireNames, WIRE_NAME } from "../../src/operations/wire_names.ts";
import type { McpConnection } from "../../src/mcp/connection.ts";
import { readTools } from "../../src/mcp/read_tools.ts";
import { type SchemaWork, toTool } from "../../src/mcp/to_tool.ts";
import { findRefusals } from "../operations/openai_rules.ts";
import { loadServers } from "./rig.ts";
import { listsOfTools } from "./tool_lists.ts";

const lists = [...listsOfTools()];

/** A client whose server lists these tools. */
function listing(tools: Json[]) {
  const client = {
    getServerCapabilities: () => ({ tools: {} }),
    getProtocolEra: () => "legacy",
    request: () => Promise.resolve({ tools }),
  };
  return readTools(client as never, { signal: new AbortController().signal, timeoutMs: 1000 });
}

const schemas = { parametersOf: foreignParameters, validatorOf: foreignValidator };

async function mapAll(using: SchemaWork = schemas) {
  const tools = [];
  for (const [name, given] of lists) {
    const server = loadServers({ [name]: { command: "x" } }).servers[name];
    const { tools: listed, dropped } = await listing(given);
    for (const { reason } of dropped) assert.notEqual(reason, "");
    assert.equal(listed.length + dropped.length, given.length);
    const connection = { name, server } as McpConnection;
    tools.push(...listed.map((tool) => toTool(connection, tool, { schemas: using, observe() {} })));
  }
  return tools;
}

Deno.test("every real tool and every odd shape becomes one that models take, under a name of its own", async () => {
  const tools = await mapAll();
  assert.ok(tools.length > 150, String(tools.length));
  const names = tools.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  const wire = createWireNames(names);
  for (const tool of tools) {
    assert.deepEqual(findRefusals(tool.parameters), [], tool.name);
    assert.match(wire.toWire(tool.name), WIRE_NAME);
    assert.equal(wire.fromWire(wire.toWire(tool.name)), tool.name);
    assert.notEqual(tool.description, "");
    assert.equal(tool.strict, false);
  }
  const again = (await mapAll()).map(({ name }) => name);
  assert.deepEqual(again, names);
});

Deno.test("what nobody sees is not in what models read", async () => {
  const hidden = "Add\u202e two\u200b numbers\u{e0041}\u{e0042}\u0007";
  const { tools } = await listing([
    { name: "add", description: hidden, inputSchema: {} },
    { name: "long", description: "x".repeat(5000) } as JsonObject,
  ]);
  assert.equal(tools[0]?.description, "Add two numbers");
  assert.equal(tools[1]?.description.length, 1024);
});

Deno.test("each tool's schema is made one for models once", async () => {
  let made = 0;
  const parametersOf = (schema: JsonObject) => (made++, foreignParameters(schema));
  const tools = await mapAll({ ...schemas, parametersOf });
  assert.equal(made, tools.length);
});

Deno.test("a schema that is too much costs its own tool only", async () => {
  const nest = (levels: number) => {
    let schema: JsonObject = {};
    for (let at = 0; at < levels; at++) schema = { type: "object", properties: { a: schema } };
    return schema;
  };
  const wide = Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`p${at}`, {}]));
  const { tools, dropped } = await listing([
    { name: "deep", inputSchema: nest(100_000) },
    { name: "wide", inputSchema: { type: "object", properties: wide } },
    { name: "long", inputSchema: { type: "object", description: "x".repeat(300_000) } },
    { name: "list", inputSchema: { enum: [[[[[]]]]], properties: { a: { $ref: "#" } } } },
    { name: "good", inputSchema: nest(20) },
  ]);
  assert.deepEqual(tools.map(({ name }) => name), ["list", "good"]);
  assert.deepEqual(dropped, [
    { name: "deep", reason: "its schema is nested deeper than 100 levels" },
    { name: "wide", reason: "its schema has more than 20000 parts" },
    { name: "long", reason: "its schema has more than 262144 characters" },
  ]);
});

Deno.test("patterns of a server are never run, and its references never fetched", async () => {
  const { tools } = await listing([{
    name: "slow",
    inputSchema: {
      type: "object",
      properties: {
        text: { type: "string", pattern: "^(a+)+$" },
        far: { $ref: "http://127.0.0.1:1/schema.json" },
      },
      patternProperties: { "^(b+)+$": { type: "string" } },
    },
  }]);
  const [tool = assert.fail()] = tools;
  const asked: unknown[] = [];
  const { fetch, RegExp: { prototype: { exec } } } = globalThis;
  Object.assign(globalThis, { fetch: (url: unknown) => asked.push(url) });
  const run: string[] = [];
  const { exec: spied } = {
    exec(this: RegExp, text: string) {
      if (this.source.includes("+)+")) run.push(this.source);
      return exec.call(this, text);
    },
  };
  Object.assign(RegExp.prototype, { exec: spied });
  try {
    const parameters = foreignParameters(tool.inputSchema);
    assert.deepEqual(findRefusals(parameters), []);
    const input = { text: `${"a".repeat(50)}!`, far: 1, [`${"b".repeat(50)}!`]: "x" };
    assert.equal(foreignValidator(tool.inputSchema)(input).ok, true);
  } finally {
    Object.assign(RegExp.prototype, { exec });
    Object.assign(globalThis, { fetch });
  }
  assert.deepEqual([asked, run], [[], []]);
});
