import assert from "node:assert/strict";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { connectMcp, MCP_CLIENTS } from "../support/mcp_clients.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

const URI = "file:///a";
const OUTWARD = "mcp+docs+file:///a";
const DOCS = {
  tools: [{ name: "poke" }],
  capabilities: { resources: { subscribe: true } },
  answers: {
    "resources/list": { resources: [{ uri: URI, name: "a" }] },
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "ping": {},
  },
};
const updated = (uri: string) => ({ method: "notifications/resources/updated", params: { uri } });

function connectionOf({ hub }: TestHub, name = "docs") {
  const found = hub.mcp.connections.find((connection) => connection.name === name);
  return found ?? assert.fail(`no server ${name}`);
}

/** What the server was asked since it was started. */
const askedOf = (hub: TestHub) =>
  connectionOf(hub).stderr.split("\n").filter((line) => line.startsWith("resources/"));

async function poke(hub: TestHub, args: JsonObject): Promise<void> {
  const tool = { tool: "poke", input: args, headers: {}, pure: false };
  const { signal } = new AbortController();
  await connectionOf(hub).call({ ...tool, signal, progress() {} }).catch(() => {});
}

async function makeKey(hub: TestHub, policy: JsonObject): Promise<string> {
  const answer = await hub.call("/v1/admin/keys", { body: { name: "k", policy } });
  return (await answer.json()).token;
}

for (const kind of MCP_CLIENTS) {
  Deno.test(`a client of /mcp hears of changed resources until it wants no more: ${kind}`, async () => {
    await withHub({ mcpServers: { docs: scripted(DOCS) } }, async (hub) => {
      await hub.hub.mcp.settled(60_000);
      const [one, two] = [await connectMcp(kind, hub), await connectMcp(kind, hub)];
      const ends = [await one.follow(OUTWARD), await two.follow(OUTWARD)];
      assert.deepEqual(askedOf(hub), [`resources/subscribe ${URI}`]);
      await poke(hub, { notify: [updated(URI), updated(URI), updated(`${URI}/part`)] });
      await eventually(() => one.updates.length > 0 && two.updates.length > 0 || null);
      assert.deepEqual([one.updates, two.updates], [[OUTWARD], [OUTWARD]]);

      await ends[0]?.();
      await poke(hub, { notify: [updated(URI), updated("file:///b")] });
      await eventually(() => two.updates.length > 1 || null);
      assert.equal(one.updates.length, 1);

      await poke(hub, { die: true });
      await eventually(() => askedOf(hub).includes(`resources/subscribe ${URI}`) || null);
      await poke(hub, { notify: [updated(URI)] });
      await eventually(() => two.updates.length > 2 || null);
      await two.close();
      await eventually(() => askedOf(hub).includes(`resources/unsubscribe ${URI}`) || null);
      assert.equal(hub.hub.mcpServer.subscriptions?.size, 0);
      await one.close();
    });
  });
}

Deno.test("what a key may not read, and what a server does not tell of, cannot be followed; nor more than there is room for", async () => {
  const silent = scripted({ capabilities: { resources: {} }, answers: DOCS.answers });
  const refusing = scripted({
    capabilities: { resources: { subscribe: true } },
    answers: { ...DOCS.answers, "resources/subscribe": { code: -32602, message: "not that" } },
  });
  await withHub({ mcpServers: { docs: scripted(DOCS), silent, refusing } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const key = await makeKey(hub, { tools: ["docs__file:///a"] });
    for (const kind of ["v1", "v2"] as const) {
      const limited = await connectMcp(kind, { url: hub.url, key });
      await assert.rejects(limited.follow("mcp+docs+file:///b"), /no resource|not taken/);
      await assert.rejects(limited.follow("mcp+silent+file:///a"), /no resource|not taken/);
      await limited.follow(OUTWARD);
      await limited.close();
      const free = await connectMcp(kind, hub);
      await assert.rejects(free.follow("mcp+silent+file:///a"), /has no subscriptions|not taken/);
      await assert.rejects(free.follow("mcp+refusing+file:///a"), /not that|not taken/);
      await free.close();
    }
    const many = await connectMcp("v1", hub);
    const added = await Promise.allSettled(
      Array.from({ length: 101 }, (_, at) => many.follow(`${OUTWARD}/${at}`)),
    );
    assert.equal(added.filter(({ status }) => status === "rejected").length, 1);
    await many.close();
    await eventually(() => hub.hub.mcpServer.subscriptions?.size === 0 || null);
  });
});

Deno.test("a server of 2026-07-28 is listened to once, for whatever is followed", async () => {
  const filters: string[][] = [];
  const handler = createMcpHandler(() => {
    const server = new Server({ name: "modern", version: "1" }, {
      capabilities: { tools: {}, resources: { subscribe: true } },
    });
    server.setRequestHandler("tools/list", () => ({ tools: [] }));
    server.setRequestHandler("resources/list", () => ({ resources: [{ uri: URI, name: "a" }] }));
    server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [] }));
    return server;
  }, { legacy: "reject" });
  const listener = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const body = request.method === "POST" ? await request.clone().json() : {};
      const wanted = body.params?.notifications?.resourceSubscriptions;
      if (wanted !== undefined) filters.push(wanted);
      return await handler.fetch(request);
    },
  );
  const docs = { url: `http://127.0.0.1:${listener.addr.port}`, protocol: "2026-07-28" };
  await withHub({ mcpServers: { docs } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const client = await connectMcp("v2", hub);
    const end = await client.follow(OUTWARD);
    await client.follow(`${OUTWARD}2`);
    assert.deepEqual(filters, [[URI], [URI, `${URI}2`]]);
    handler.notify.resourceUpdated(URI);
    await eventually(() => client.updates.length > 0 || null);
    await end();
    await eventually(() => filters.length === 3 || null);
    assert.deepEqual(filters[2], [`${URI}2`]);
    handler.notify.resourceUpdated(URI);
    handler.notify.resourceUpdated(`${URI}2`);
    await eventually(() => client.updates.includes(`${OUTWARD}2`) || null);
    assert.deepEqual(client.updates, [OUTWARD, `${OUTWARD}2`]);
    await client.close();
  });
  await handler.close();
  await listener.shutdown();
});
