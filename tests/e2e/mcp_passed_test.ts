import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { withHub } from "../support/test_hub.ts";

const OUTPUT = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const TOOL = {
  name: "count",
  title: "Counts\u202e",
  description: "Counts things",
  inputSchema: { type: "object", properties: {} },
  outputSchema: OUTPUT,
  annotations: { destructiveHint: false, openWorldHint: false, readOnlyHint: true },
};

Deno.test("over /mcp a connected tool has its title and the schema of its results; its hints where it is trusted", async () => {
  const odd = { ...TOOL, name: "odd", title: 7, outputSchema: { type: "string" } };
  const results = { count: { content: [], structuredContent: { n: 3 } } };
  const known = scripted({ tools: [TOOL, odd], results }, { trust: true });
  const foreign = scripted({ tools: [TOOL], results });
  await withHub({ mcpServers: { known, foreign } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const ask = async (method: string, params: JsonObject) => {
      const meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
      };
      const name = params["name"];
      const answer = await hub.call("/mcp", {
        body: { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } },
        headers: {
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": method,
          ...typeof name === "string" ? { "mcp-name": name } : {},
        },
      });
      return (await answer.json()).result;
    };
    const { tools } = await ask("tools/list", {});
    const find = (name: string) => tools.find((tool: { name: string }) => tool.name === name);
    const { title, outputSchema, annotations } = find("known__count");
    assert.deepEqual([title, outputSchema], ["Counts", OUTPUT]);
    assert.deepEqual(annotations, {
      readOnlyHint: true,
      destructiveHint: false,
      openWorldHint: false,
    });
    assert.deepEqual(find("foreign__count").title, "Counts");
    assert.deepEqual(find("foreign__count").annotations, {
      readOnlyHint: false,
      idempotentHint: false,
    });
    assert.deepEqual([find("known__odd").title, find("known__odd").outputSchema], [
      undefined,
      undefined,
    ]);
    const called = await ask("tools/call", { name: "known__count", arguments: {} });
    assert.deepEqual(called.structuredContent, { n: 3 });
  });
});
