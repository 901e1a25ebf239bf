import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { withHub } from "../support/test_hub.ts";

const REVISION = "2026-07-28";
const META = {
  "io.modelcontextprotocol/protocolVersion": REVISION,
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const region = { type: "string", "x-mcp-header": "Region" };
const count = { type: "integer", "x-mcp-header": "Count" };

Deno.test("headers that mirror arguments must say what the body says, in 2026-07-28 over HTTP", async () => {
  const inputSchema = { type: "object", properties: { region, count } };
  const docs = scripted({ tools: [{ name: "find", inputSchema }] });
  await withHub({ mcpServers: { docs } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const call = async (input: JsonObject, headers: Record<string, string>) => {
      const params = { name: "docs__find", arguments: input, _meta: META };
      const answer = await hub.call("/mcp", {
        body: { jsonrpc: "2.0", id: 1, method: "tools/call", params },
        headers: {
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": REVISION,
          "mcp-method": "tools/call",
          "mcp-name": "docs__find",
          ...headers,
        },
      });
      const text = await answer.text();
      return { status: answer.status, code: Number(/"code":(-?\d+)/.exec(text)?.[1] ?? 0), text };
    };
    for (
      const headers of [
        { "mcp-param-region": "eu" },
        { "mcp-param-region": "=?base64?ZXU=?=", "mcp-param-count": "7" },
        { "mcp-param-region": "=?base64?ZXU?=" },
        {
          "mcp-param-region": "eu",
          "mcp-name": `=?base64?${btoa("docs__find").replace(/=+$/, "")}?=`,
        },
      ]
    ) {
      const { status, text } = await call({ region: "eu" }, headers);
      assert.equal(status, 200, text);
      assert.match(text, /find ok/);
    }
    assert.equal((await call({ count: 42 }, { "mcp-param-count": "42.0" })).status, 200);
    assert.equal((await call({}, {})).status, 200);
    for (
      const [input, headers] of [
        [{ region: "eu" }, {}],
        [{ region: "eu" }, { "mcp-param-region": "us" }],
        [{ region: "eu" }, { "mcp-param-region": "=?base64?ZX=?=" }],
        [{ count: 42 }, { "mcp-param-count": "43" }],
      ] as const
    ) {
      const { status, code, text } = await call(input, headers);
      assert.deepEqual([status, code], [400, -32020], text);
      assert.match(text, /Mcp-Param-/);
    }
    for (const kind of ["v1", "v2", "v2 websocket"] as const) {
      const client = await connectMcp(kind, hub);
      await client.tools();
      const { content } = await client.call("docs__find", { region: "ü", count: 3 });
      assert.equal(content[0]?.text, "find ok");
      await client.close();
    }
  });
});
