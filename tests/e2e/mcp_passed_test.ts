import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

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

async function listening(hub: TestHub) {
  const heard: unknown[] = [];
  const client = new Client({ name: "test", version: "1" });
  client.setNotificationHandler(
    LoggingMessageNotificationSchema,
    ({ params }: { params: unknown }) => void heard.push(params),
  );
  const requestInit = { headers: { authorization: `Bearer ${hub.key}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${hub.url}/mcp`), { requestInit });
  await client.connect(transport as Parameters<typeof client.connect>[0]);
  return { client, heard };
}

Deno.test("what a server says in a call reaches the client that called, at its level, and nobody else", async () => {
  const peer = scripted({ tools: [{ name: "work" }] });
  await withHub({ mcpServers: { peer } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const caller = await listening(hub);
    const other = await listening(hub);
    await caller.client.setLoggingLevel("info");
    const say = (params: JsonObject) => ({
      jsonrpc: "2.0",
      method: "notifications/message",
      params,
    });
    const work = (...notify: JsonObject[]) =>
      caller.client.callTool({ name: "peer__work", arguments: { notify } });
    await work(
      say({ level: "debug", data: "too fine" }),
      say({ level: "warning", logger: "disk", data: { left: 3, text: "a\u202eb" } }),
      say({ level: "info", data: "x".repeat(10_000) }),
    );
    const [first, second, ...more] = caller.heard as { data: unknown }[];
    assert.deepEqual(first, {
      level: "warning",
      logger: "peer: disk",
      data: { left: 3, text: "ab" },
    });
    assert.equal(String(second?.data).length, 8192);
    assert.deepEqual(more, []);

    await work(...Array.from({ length: 1100 }, (_, n) => say({ level: "info", data: n })));
    assert.equal(caller.heard.length, 1002);
    assert.deepEqual(other.heard, []);
    await caller.client.close();
    await other.client.close();
  });
});
