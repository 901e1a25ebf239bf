import assert from "node:assert/strict";
import { startHttpMcpServer } from "../mcp/http_server.ts";
import { eventually, type TestHub, withReplicas } from "../support/test_hub.ts";

interface Waiting {
  name: string;
  hash: string;
}

const shown = async (hub: TestHub) => await (await hub.call("/v1/admin/mcp/one")).json();
const namesOf = (hub: TestHub) => hub.hub.mcp.tools.map(({ name }) => name);
const connect = async ({ hub }: TestHub) => {
  for (const connection of hub.mcp.connections) {
    connection.rest();
    await connection.connect();
  }
};

Deno.test("what an admin approves counts on all replicas, and what another one keeps does not take it back", async () => {
  const server = startHttpMcpServer();
  const tool = (
    description: string,
  ) => [{ name: "good", description, inputSchema: { type: "object" } }];
  server.tools = tool("First");
  const config = { mcpServers: { one: { url: server.url } } };
  try {
    await withReplicas([config, config], async (first, second) => {
      await first.hub.mcp.settled(30_000);
      await second.hub.mcp.settled(30_000);
      server.tools = tool("Second");
      await connect(first);
      await connect(second);
      assert.deepEqual([namesOf(first), namesOf(second)], [[], []]);
      const { waiting } = await shown(first) as { waiting: Waiting[] };
      const [{ hash }] = waiting as [Waiting];

      // The server has another definition meanwhile: what was shown is not what would count.
      server.tools = tool("Third");
      await connect(first);
      const approve = async (hash: string) => {
        const answer = await first.call("/v1/admin/mcp/one/approve", { body: { hashes: [hash] } });
        await answer.body?.cancel();
        return answer.status;
      };
      assert.equal(await approve(hash), 409);
      assert.deepEqual(namesOf(first), []);
      const again = (await shown(first)).waiting[0].hash;
      assert.equal(await approve(again), 200);
      assert.deepEqual(namesOf(first), ["one__good"]);

      // The other one keeps its list, with pins of before; then it hears of the approval.
      await connect(second);
      await eventually(() => namesOf(second).length === 1 || null);
      await connect(second);
      const { db } = first.hub.start;
      const rows = await db.read`select pins from hub.mcp_catalogues`;
      assert.deepEqual(rows.map(({ pins }) => pins), [{ good: again }]);
    });
  } finally {
    await server.stop();
  }
});
