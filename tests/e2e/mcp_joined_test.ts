import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { eventually, withHub } from "../support/test_hub.ts";

Deno.test("tools of connected servers are served over /mcp, as far as the key goes", async () => {
  const one = scripted({
    tools: [{ name: "one", description: "Does one thing", inputSchema: {} }],
  });
  await withHub({ mcpServers: { good: one } } as JsonObject, async (hub) => {
    const make = async (policy: JsonObject) => {
      const answer = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
      return (await answer.json()).token as string;
    };
    await hub.hub.mcp.settled(60_000);
    const key = await make({ tools: ["good__*"] });
    const none = await make({ tools: ["hub.*"] });
    for (const kind of MCP_CLIENTS) {
      const client = await connectMcp(kind, { url: hub.url, key });
      const names = await eventually(async () => {
        const names = (await client.tools()).map(({ name }) => name);
        return names.includes("good__one") ? names : null;
      });
      assert.deepEqual(names, ["agent_default", "good__one"]);
      const result = await client.call("good__one", {});
      assert.equal(result.isError, undefined, JSON.stringify(result));
      await client.close();
      const other = await connectMcp(kind, { url: hub.url, key: none });
      await assert.rejects(other.call("good__one", {}), /There is no tool/);
      await other.close();
    }
  });
});
