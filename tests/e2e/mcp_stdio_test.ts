import assert from "node:assert/strict";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { environment, flagsOf, main } from "../support/hub_process.ts";
import { assertServesNewest, connectV1 } from "../support/stdio_programs.ts";

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
  try {
    await t.step("v1", async () => {
      const { client, left } = await connectV1(parameters);
      const tools = (await client.listTools()).tools as { name: string }[];
      assert.ok(tools.some(({ name }) => name === "agent_default"));
      const { content } = await client.callTool({
        name: "agent_default",
        arguments: { prompt: "Hi" },
      });
      assert.deepEqual(content, [{ type: "text", text: "Hello there" }]);
      await left();
    });

    await t.step("v2", async () => await assertServesNewest(parameters));
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
