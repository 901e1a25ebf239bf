import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { withHub } from "../support/test_hub.ts";

const LONG = `Does it. ${"Read this. ".repeat(300)}End.`;
const tool = (name: string, inputSchema: JsonObject, more: JsonObject = {}) => ({
  name,
  description: name,
  inputSchema,
  annotations: { readOnlyHint: true },
  ...more,
});
const TOOLS = [
  tool("plain", { type: "object", properties: { a: { type: "string" } } }, { description: LONG }),
  tool("boolean", { type: "object", properties: { a: true } }),
  tool("nothing", { type: "object", properties: {}, required: null }),
  tool("output", { type: "object" }, {
    outputSchema: { type: "object", properties: { a: true }, required: null },
  }),
  tool("broken_output", { type: "object" }, {
    outputSchema: { type: "object", properties: { a: { type: "string", pattern: "(" } } },
  }),
  tool("same_id", { type: "object", $id: "x" }, { outputSchema: { type: "object", $id: "x" } }),
  tool("same_id_again", { type: "object", $id: "x" }, {
    outputSchema: { type: "object", $id: "x" },
  }),
  tool("union", { anyOf: [{ type: "object", properties: { a: { type: "string" } } }] }),
];

Deno.test("/mcp: odd schemas of a connected server empty no client's list", async (t) => {
  const results = { boolean: { content: [{ type: "text", text: "done" }] } };
  const peer = scripted({ tools: TOOLS, results }, { trust: true });
  await withHub({ mcpServers: { peer } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    for (const kind of MCP_CLIENTS) {
      await t.step(kind, async () => {
        const client = await connectMcp(kind, hub);
        try {
          const tools = (await client.tools()).filter(({ name }) => name.startsWith("peer__"));
          assert.deepEqual(
            tools.map(({ name }) => name.replace("peer__", "")).toSorted(),
            TOOLS.map(({ name }) => name).toSorted(),
          );
          const schemaOf = (name: string) =>
            tools.find((one) => one.name === `peer__${name}`)?.inputSchema;
          assert.deepEqual(schemaOf("plain"), TOOLS[0]?.inputSchema);
          assert.deepEqual(schemaOf("boolean"), { type: "object", properties: { a: {} } });
          const description = tools.find(({ name }) => name === "peer__plain")?.description;
          assert.equal(description, LONG);
          const { content } = await client.call("peer__boolean", { a: [1, { b: null }] });
          assert.equal(content[0]?.text, "done");
        } finally {
          await client.close();
        }
      });
    }
  });
});
