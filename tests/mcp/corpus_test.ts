import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { foreignParameters, foreignValidator } from "../../src/operations/foreign_schema.ts";
import { createWireNames, WIRE_NAME } from "../../src/operations/wire_names.ts";
import type { McpConnection } from "../../src/mcp/connection.ts";
import { readTools } from "../../src/mcp/read_tools.ts";
import { toTool } from "../../src/mcp/to_tool.ts";
import { findRefusals } from "../operations/openai_rules.ts";
import { loadServers } from "./rig.ts";

const folder = new URL("../fixtures/mcp-tools/", import.meta.url);
const lists: [string, Json[]][] = [...Deno.readDirSync(folder)]
  .map(({ name }) => name).sort()
  .map((file) => [
    file.replace(".jsonl", ""),
    Deno.readTextFileSync(new URL(file, folder)).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    ),
  ]);

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

async function mapAll() {
  const tools = [];
  for (const [name, given] of lists) {
    const server = loadServers({ [name]: { command: "x" } }).servers[name];
    const { tools: listed, dropped } = await listing(given);
    for (const { reason } of dropped) assert.notEqual(reason, "");
    assert.equal(listed.length + dropped.length, given.length);
    const connection = { name, server } as McpConnection;
    tools.push(...listed.map((tool) => toTool(connection, tool, { schemas, observe() {} })));
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
