import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { noneWith, processesWith } from "../support/processes.ts";
import { scripted } from "../mcp/rig.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { connectMcp } from "../support/mcp_clients.ts";
import { eventually } from "../support/test_hub.ts";

Deno.test("servers of a changed file are taken over while the hub runs, and those of a wrong one are not", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-reload-" });
  await Deno.chmod(folder, 0o755);
  const tagOf = (name: string) => `${folder}-${name}`;
  const server = (name: string, more: JsonObject = {}) =>
    scripted({ tools: [{ name, inputSchema: { type: "object" } }] }, {
      env: { TAG: tagOf(name) },
      ...more,
    });
  const write = async (mcpServers: JsonObject, more: JsonObject = {}) => {
    const text = JSON.stringify({ server: { shutdownDelayMs: 0 }, mcpServers, ...more });
    await Deno.writeTextFile(`${folder}/new.json`, text);
    await Deno.rename(`${folder}/new.json`, `${folder}/loophub.json`);
  };
  await write({ one: server("a"), two: server("b") });
  const hub = await startHubProcess(folder);
  const key = hub.key() ?? assert.fail("no key");
  const standing = async () => {
    const answer = await fetch(`${hub.url}/v1/admin/mcp`, {
      headers: { authorization: `Bearer ${key}`, connection: "close" },
    });
    const { data } = await answer.json();
    return data.map(({ name, state }: Record<string, string>) => `${name} ${state}`).join();
  };
  const stands = (text: string) => eventually(async () => await standing() === text || null);
  const client = await connectMcp("v2 websocket", { url: hub.url, key });
  const listed = async () =>
    (await client.tools()).map(({ name }) => name).filter((name) => /__[a-d]$/.test(name)).join();
  try {
    await stands("one ready,two ready");
    await eventually(async () => await listed() === "one__a,two__b" || null);

    await t.step("added, changed, removed", async () => {
      const before = client.changes.count;
      const [kept] = await processesWith(tagOf("a"));
      await write({ one: server("a"), three: server("c") });
      hub.signal("SIGHUP");
      await stands("one ready,three ready");
      await noneWith(tagOf("b"));
      await eventually(async () => await listed() === "one__a,three__c" || null);
      await eventually(() => client.changes.count > before || null);
      assert.ok(client.changes.count - before <= 3);
      assert.equal((await processesWith(tagOf("a")))[0], kept);
      assert.equal((await client.call("three__c", {})).isError ?? false, false);

      await write({ one: server("d"), three: server("c", { enabled: false }) });
      await stands("one ready,three disabled");
      await noneWith(tagOf("a"));
      await noneWith(tagOf("c"));
      await eventually(async () => await listed() === "one__d" || null);
      const waiting = hub.logged("Some changes of the configuration wait for the next start");
      assert.deepEqual(waiting, []);
    });

    await t.step("a wrong file changes nothing", async () => {
      await write({ one: { url: "nowhere" } });
      const refused = "The configuration was not reloaded: the last good one stays";
      await eventually(() => hub.logged(refused).length > 0 || null);
      assert.equal(await standing(), "one ready,three disabled");
      assert.equal((await client.call("one__d", {})).isError ?? false, false);
    });
  } finally {
    await client.close();
    await hub.end("SIGTERM");
    await noneWith(folder);
    await Deno.remove(folder, { recursive: true });
  }
});
