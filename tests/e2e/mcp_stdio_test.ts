import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { environment, flagsOf, main } from "../support/hub_process.ts";
import { eventually } from "../support/test_hub.ts";

const INFO = { name: "test", version: "1" };
const SLOW = { timeout: 120_000 };

Deno.test("loophub mcp serves clients of both eras over stdin and stdout, and ends with them", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-mcp-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream(() => chatStream({ text: "Hello there" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "up/m",
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const parameters = {
    command: Deno.execPath(),
    args: ["run", ...await flagsOf("mcp"), main, "mcp"],
    cwd: folder,
    env: environment(folder),
    stderr: "inherit" as const,
  };
  const isGone = (pid: number) =>
    eventually(async () => {
      const { success } = await new Deno.Command("ps", { args: ["-p", `${pid}`] }).output();
      return success ? null : true;
    }, 60_000);
  try {
    await t.step("v1", async () => {
      const client = new V1Client(INFO);
      const transport = new V1Transport(parameters);
      await client.connect(transport as Parameters<typeof client.connect>[0], SLOW);
      const tools = (await client.listTools()).tools as { name: string }[];
      assert.ok(tools.some(({ name }) => name === "agent_default"));
      const { content } = await client.callTool({
        name: "agent_default",
        arguments: { prompt: "Hi" },
      });
      assert.deepEqual(content, [{ type: "text", text: "Hello there" }]);
      const { pid } = transport;
      await client.close();
      await isGone(pid ?? assert.fail());
    });

    await t.step("v2", async () => {
      const client = new Client(INFO, {
        versionNegotiation: { mode: "auto", probe: { timeoutMs: SLOW.timeout } },
      });
      const transport = new StdioClientTransport(parameters);
      await client.connect(transport, SLOW);
      assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
      const result = await client.callTool({
        name: "hub_calculate",
        arguments: { expression: "2+3" },
      });
      assert.deepEqual(result.structuredContent, { expression: "2+3", result: 5 });
      const { pid } = transport;
      await client.close();
      await isGone(pid ?? assert.fail());
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
