import assert from "node:assert/strict";
import { HandedCredentials } from "../../src/core/handed_credentials.ts";
import { startHttpMcpServer } from "./http_server.ts";
import { withServers } from "./rig.ts";

Deno.test("what comes first with a handed credential counts for that run alone, and pins nothing", async () => {
  const server = startHttpMcpServer();
  server.wants = "Bearer handed-0001";
  const tool = (name: string) => [{ name, inputSchema: { type: "object" } }];
  try {
    await withServers({ one: { url: server.url } }, async ({ mcp, connection }) => {
      const namesOf = async () => {
        const handed = new HandedCredentials(new Map([["one", "handed-0001"]]));
        const found = await mcp.toolsFor({ tenantId: "t", keyId: "k" }, 30_000, handed);
        await found?.release?.();
        return found?.tools.map(({ name }) => name);
      };
      server.tools = tool("a");
      assert.deepEqual(await namesOf(), ["one__a"]);
      server.tools = tool("b");
      assert.deepEqual(await namesOf(), ["one__b"]);
      assert.equal(connection("one").catalogue.pins, null);

      // Once the hub itself has listed them, that counts.
      server.wants = null;
      await connection("one").connect();
      server.tools = tool("c");
      assert.deepEqual(await namesOf(), []);
    });
  } finally {
    await server.stop();
  }
});
