import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { scripted } from "../mcp/rig.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const INFO = { name: "test", version: "1" };

async function connect(hub: TestHub, mode: "legacy" | "auto", onChanged: () => void) {
  const news = { onChanged, autoRefresh: false, debounceMs: 0 };
  const client = new Client(INFO, {
    versionNegotiation: { mode },
    listChanged: { resources: news },
  });
  const requestInit = { headers: { authorization: `Bearer ${hub.key}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${hub.url}/mcp`), { requestInit });
  await client.connect(transport);
  return {
    client,
    uris: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    async close() {
      if (mode === "legacy") await transport.terminateSession();
      await client.close();
    },
  };
}

Deno.test("what a server has beside tools is known after a restart, before anybody connects to it", async () => {
  const docs = scripted({
    tools: [{ name: "poke" }],
    capabilities: { resources: {}, prompts: {} },
    answers: {
      "resources/list": { resources: [{ uri: "file:///a", name: "a" }] },
      "resources/templates/list": { resourceTemplates: [] },
      "prompts/list": { prompts: [{ name: "hello" }] },
    },
  });
  await withHub({ mcpServers: { docs } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    await Promise.all(hub.hub.mcp.connections.map(({ content }) => content.settled()));
    const again = await hub.restart();
    const { client, uris, close } = await connect(again, "auto", () => {});
    assert.deepEqual(await uris(), ["mcp+docs+file:///a"]);
    const { prompts } = await client.listPrompts();
    assert.deepEqual(prompts.map(({ name }) => name), ["docs__hello"]);
    assert.deepEqual(again.hub.mcp.connections.map(({ state }) => state.kind), ["idle"]);
    await close();
  });
});

Deno.test("clients of /mcp hear of a server's other resources, in both eras, and then have them", async () => {
  const answersFile = await Deno.makeTempFile({ dir: "/tmp", prefix: "loophub-answers-" });
  const write = (...uris: string[]) =>
    Deno.writeTextFile(
      answersFile,
      JSON.stringify({
        "resources/list": { resources: uris.map((uri) => ({ uri, name: "x" })) },
        "resources/templates/list": { resourceTemplates: [] },
      }),
    );
  await write("file:///0");
  const docs = scripted({
    tools: [{ name: "poke" }],
    capabilities: { resources: { listChanged: true } },
    answersFile,
  });
  await withHub({ mcpServers: { docs } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    await Promise.all(hub.hub.mcp.connections.map(({ content }) => content.settled()));
    const changed = { jsonrpc: "2.0", method: "notifications/resources/list_changed" };
    let changes = 0;
    for (const mode of ["legacy", "auto"] as const) {
      let heard = 0;
      const { client, uris, close } = await connect(hub, mode, () => void heard++);
      // A stream for news may open after the first change.
      while (heard === 0) {
        await write(`file:///${++changes}`);
        await client.callTool({ name: "docs__poke", arguments: { notify: [changed] } });
        await eventually(async () => (await uris())[0]?.endsWith(`/${changes}`) || null);
        await eventually(() => heard > 0 || null, 2000).catch(() => {});
      }
      assert.deepEqual(await uris(), [`mcp+docs+file:///${changes}`]);
      await close();
    }
  });
  await Deno.remove(answersFile);
});
