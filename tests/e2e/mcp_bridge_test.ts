import assert from "node:assert/strict";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { scripted } from "../mcp/rig.ts";
import { command, environment, flagsOf, main, startCommand } from "../support/hub_process.ts";
import { INITIALIZE } from "../support/mcp_messages.ts";
import { assertServesNewest, connectV1 } from "../support/stdio_programs.ts";
import { eventually, withHub } from "../support/test_hub.ts";

const INFO = { name: "test", version: "1" };
const UPDATED = { method: "notifications/resources/updated", params: { uri: "file:///a" } };

async function bridgeTo(url: string, key: string) {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-bridge-" });
  return {
    command: Deno.execPath(),
    args: ["run", ...await flagsOf("mcp:bridge"), main, "mcp", "--url", url],
    cwd: folder,
    env: { ...environment(folder), LOOPHUB_KEY: key },
    stderr: "ignore" as const,
  };
}

Deno.test("clients that speak over stdio alone have a running hub's /mcp, in both eras and both ways", async (t) => {
  const docs = scripted({
    tools: [{ name: "poke" }],
    capabilities: { resources: { subscribe: true } },
    answers: { "resources/list": { resources: [] }, "resources/subscribe": {}, ping: {} },
  });
  await withHub({ mcpServers: { docs } }, async (hub) => {
    await hub.hub.mcp.settled(60_000);
    const parameters = await bridgeTo(`${hub.url}/mcp`, hub.key);
    await t.step("v1", async () => {
      const client = new V1Client(INFO, { capabilities: { elicitation: {} } });
      client.setRequestHandler(ElicitRequestSchema, () => ({ action: "decline" as const }));
      const updates: string[] = [];
      client.fallbackNotificationHandler = ({ method }: { method: string }) => {
        updates.push(method);
        return Promise.resolve();
      };
      const { left } = await connectV1(parameters, client);
      await client.subscribeResource({ uri: "mcp+docs+file:///a" });
      await client.callTool({ name: "docs__poke", arguments: { notify: [UPDATED] } });
      await eventually(() => updates.includes(UPDATED.method) || null);
      await assert.rejects(client.callTool({ name: "nothing" }), /no tool nothing/);
      await left();
    });
    await t.step("v2", async () => await assertServesNewest(parameters));
    await t.step("a key that holds no more", async () => {
      const env = { ...parameters.env, LOOPHUB_KEY: "lh_nothing" };
      const client = new V1Client(INFO);
      await assert.rejects(connectV1({ ...parameters, env }, client), /answered 401/);
      await client.close();
    });
    await t.step("lines and no more", async () => {
      const lines = [INITIALIZE, { jsonrpc: "2.0", id: 2, method: "tools/list" }];
      const input = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
      const env = { LOOPHUB_KEY: hub.key };
      const { code, out } = await command(
        parameters.cwd,
        ["mcp", "--url", hub.url],
        env,
        input,
      );
      assert.equal(code, 0);
      const answers = out.trim().split("\n").map((line) => JSON.parse(line));
      assert.deepEqual(answers.map(({ id }) => id), [1, 2]);
      assert.ok(answers[1].result.tools.length > 0);
    });
    await Deno.remove(parameters.cwd, { recursive: true });
  });
});

Deno.test("a bridge without a key says so, and one whose hub is away answers before it is gone", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-bridge-" });
  const keyless = await startCommand(folder, ["mcp", "--url", "http://127.0.0.1:1"]);
  assert.equal(await keyless.ended(), 2);
  assert.match(keyless.err(), /LOOPHUB_KEY has no key/);
  const request = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "ping" });
  const env = { LOOPHUB_KEY: "lh_x" };
  const away = await command(folder, ["mcp", "--url", "http://127.0.0.1:1"], env, `${request}\n`);
  assert.equal(away.code, 1);
  assert.equal(JSON.parse(away.out).id, 7);
  await Deno.remove(folder, { recursive: true });
});
