import assert from "node:assert/strict";
import { parseJsonc } from "../../src/config/parse_jsonc.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { answer, start, untilWaiting } from "../support/approvals_rig.ts";
import { logOf } from "../support/log_of.ts";
import { fetchPackages, realServer } from "../support/real_mcp_servers.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

interface Example {
  mcpServers: { files: JsonObject; github: JsonObject };
  agents: JsonObject;
}

/** The first example of docs/mcp.md, as a reader copies it. */
async function firstExample(): Promise<Example> {
  const docs = await Deno.readTextFile(new URL("../../docs/mcp.md", import.meta.url));
  const { value, syntaxProblems } = parseJsonc(/```jsonc\n([\s\S]*?)```/.exec(docs)?.[1] ?? "");
  assert.deepEqual(syntaxProblems, []);
  return value as unknown as Example;
}

Deno.test("the first example of docs/mcp.md reads as often as it likes without an approval", async (t) => {
  await fetchPackages(["server-filesystem"]);
  const { mcpServers: { files, github }, agents } = await firstExample();
  assert.deepEqual([files["command"], (files["args"] as string[])[1]], [
    "npx",
    "@modelcontextprotocol/server-filesystem",
  ]);
  const folder = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-docs-" }),
  );
  await Deno.writeTextFile(`${folder}/hello.txt`, "hello from a file");
  const upstream = await startScriptedUpstream();
  const configOf = (files: JsonObject) => ({
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    mcpServers: {
      files: { ...files, ...realServer("server-filesystem", [folder]) },
      github: { ...github, enabled: false },
    },
    agents,
  });
  const read = { name: "files__read_text_file", arguments: { path: `${folder}/hello.txt` } };
  const list = { name: "files__list_directory", arguments: { path: folder } };
  const script = () =>
    upstream.script([
      chatStream({ toolCalls: [read] }),
      chatStream({ toolCalls: [list] }),
      chatStream({ toolCalls: [{ ...read, arguments: { ...read.arguments, head: 1 } }] }),
      chatStream({ text: "Done" }),
    ]);
  try {
    await t.step("as it stands", async () => {
      await withHub(configOf(files), async (hub) => {
        await hub.hub.mcp.settled(120_000);
        script();
        const log = logOf(await (await start(hub, { agent: "reader" })).stream);
        const types = log.map(({ event }) => event.type);
        assert.equal(types.filter((type) => type === "tool-output-available").length, 3);
        assert.ok(!types.includes("tool-approval-request"));
        assert.match(JSON.stringify(log), /hello from a file/);
      });
    });
    await t.step("without what it says of effects a person is asked", async () => {
      const { effect: _, ...silent } = files;
      await withHub(configOf(silent), async (hub) => {
        await hub.hub.mcp.settled(120_000);
        script();
        const { runId, stream } = await start(hub, { agent: "reader" });
        for (const tool of ["files__list_directory", "files__read_text_file"]) {
          const asked = (await untilWaiting(hub, runId)).at(-1);
          assert.equal(asked?.toolName, tool);
          await answer(hub, runId, asked?.id ?? "", { approved: false });
        }
        await stream;
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
