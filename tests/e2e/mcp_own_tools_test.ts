import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { startOAuthServer } from "../support/oauth_server.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

interface User {
  id: string;
  token: string;
}

async function createUser(hub: TestHub, policy: JsonObject = {}): Promise<User> {
  const answer = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
  assert.equal(answer.status, 201);
  const { key, token } = await answer.json();
  return { id: key.id, token };
}

const AUTHORIZE = "/v1/mcp/guarded/authorize";

async function ask(hub: TestHub, { token }: User, method: string): Promise<JsonObject> {
  const headers = { authorization: `Bearer ${token}` };
  const answer = await hub.call(AUTHORIZE, { method, headers });
  const text = await answer.text();
  assert.ok(answer.ok, text);
  return text === "" ? {} : JSON.parse(text);
}

Deno.test("over /mcp each key has the tools of what it authorized itself, and calls them as itself", async () => {
  const server = startOAuthServer();
  const files = scripted({ tools: [{ name: "read" }] });
  await withHub({ mcpServers: { guarded: { url: server.url }, files } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const [ada, eve, none] = [await createUser(hub), await createUser(hub), await createUser(hub)];
    const waiting = await connectMcp("v2", { url: hub.url, key: ada.token });
    assert.deepEqual((await waiting.tools()).filter(({ name }) => name.includes("guarded")), []);
    for (const [user, name] of [[ada, "ada"], [eve, "eve"]] as const) {
      const { url } = await ask(hub, user, "POST");
      const back = await server.approve(String(url), name);
      const landed = await hub.call(back.pathname + back.search);
      assert.equal(landed.status, 200, await landed.text());
    }
    await eventually(() => waiting.changes.count > 0 || null);
    for (const kind of MCP_CLIENTS) {
      for (const [user, name] of [[ada, "ada"], [eve, "eve"]] as const) {
        const client = await connectMcp(kind, { url: hub.url, key: user.token });
        const names = (await client.tools()).map((tool) => tool.name);
        assert.deepEqual(
          names.filter((tool) => tool.includes("__")),
          ["files__read", `guarded__secret_of_${name}`, "guarded__whoami"],
        );
        const { content } = await client.call("guarded__whoami", {});
        assert.equal(content[0]?.text, name);
        assert.equal((await client.call("files__read", {})).content[0]?.text, "read ok");
        const other = name === "ada" ? "eve" : "ada";
        await assert.rejects(client.call(`guarded__secret_of_${other}`, {}), /no tool/);
        await client.close();
      }
      const client = await connectMcp(kind, { url: hub.url, key: none.token });
      const names = (await client.tools()).map((tool) => tool.name);
      assert.deepEqual(names.filter((tool) => tool.includes("__")), ["files__read"]);
      await assert.rejects(client.call("guarded__whoami", {}), /no tool/);
      await client.close();
    }
    const told = waiting.changes.count;
    await ask(hub, ada, "DELETE");
    await eventually(() => waiting.changes.count > told || null);
    assert.deepEqual((await waiting.tools()).filter(({ name }) => name.includes("guarded")), []);
    await assert.rejects(waiting.call("guarded__whoami", {}), /no tool/);
    await waiting.close();
  });
  await server.stop();
});

for (const kind of MCP_CLIENTS) {
  Deno.test(`a key whose policy changes hears of other lists, and nobody else does; a revoked one's connection ends: ${kind}`, async () => {
    const docs = scripted({
      tools: [{ name: "read" }, { name: "write" }],
      capabilities: { resources: { subscribe: true } },
      answers: {
        "resources/list": { resources: [{ uri: "file:///a", name: "a" }] },
        "resources/subscribe": {},
        "resources/unsubscribe": {},
      },
    });
    await withHub({ mcpServers: { docs } }, async (hub) => {
      await hub.hub.mcp.settled(60_000);
      await Promise.all(hub.hub.mcp.connections.map(({ content }) => content.settled()));
      const [one, two] = [await createUser(hub, { tools: ["docs__*"] }), await createUser(hub)];
      const client = await connectMcp(kind, { url: hub.url, key: one.token });
      const other = await connectMcp(kind, { url: hub.url, key: two.token });
      await client.follow("mcp+docs+file:///a");
      await other.follow("mcp+docs+file:///a");
      assert.equal((await client.tools()).filter(({ name }) => name.includes("__")).length, 2);
      const change = (body: JsonObject) =>
        hub.call(`/v1/admin/keys/${one.id}`, { method: "PATCH", body }).then(async (answer) =>
          assert.equal(answer.status, 200, await answer.text())
        );
      await change({ policy: { tools: ["docs__read"] } });
      await eventually(async () => {
        const names = (await client.tools()).map(({ name }) => name);
        return names.filter((name) => name.includes("__")).join() === "docs__read" || null;
      });
      await eventually(() => hub.hub.mcpServer.subscriptions?.size === 1 || null);
      await eventually(() => client.changes.count > 0 || null);
      const [told, heard] = [client.changes.count, other.changes.count];
      await change({ policy: { tools: ["docs__read"], requestsPerMinute: 1000 } });
      await change({ policy: { tools: ["docs__write"] } });
      await eventually(() => client.changes.count > told || null);
      assert.deepEqual([client.changes.count, other.changes.count], [told + 1, heard]);
      const revoked = await hub.call(`/v1/admin/keys/${two.id}/revoke`, { method: "POST" });
      assert.equal(revoked.status, 200, await revoked.text());
      await eventually(() => hub.hub.mcpServer.subscriptions?.size === 0 || null);
      await client.close();
      await other.close().catch(() => {});
    });
  });
}
