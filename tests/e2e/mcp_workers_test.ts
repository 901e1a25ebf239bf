import assert from "node:assert/strict";
import { startHubProcess } from "../support/hub_process.ts";
import { connectMcp } from "../support/mcp_clients.ts";

Deno.test("processes that share a port serve MCP clients of both eras", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-" });
  await Deno.chmod(folder, 0o755);
  await Deno.writeTextFile(
    `${folder}/loophub.json`,
    JSON.stringify({ server: { shutdownDelayMs: 0 } }),
  );
  const hub = await startHubProcess(folder, {}, ["--replicas", "2"]);
  try {
    const key = hub.key() ?? assert.fail("no key");
    for (const kind of ["v1", "v2 legacy", "v2", "v2 websocket"] as const) {
      const clients = await Promise.all(
        Array.from({ length: 5 }, () => connectMcp(kind, { url: hub.url, key })),
      );
      await Promise.all(clients.map(async (client) => {
        for (let at = 0; at < 5; at++) {
          const result = await client.call("hub_calculate", { expression: `${at}+1` });
          assert.deepEqual(result.structuredContent, { expression: `${at}+1`, result: at + 1 });
        }
        await client.close();
      }));
    }
  } finally {
    await hub.end("SIGTERM");
    await Deno.remove(folder, { recursive: true });
  }
});
