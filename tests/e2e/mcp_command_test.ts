import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";

const root = new URL("../../", import.meta.url).pathname;

/** Runs the task as it stands in `deno.json`, with its permissions. */
async function command(servers: JsonObject, args: string[]) {
  const { tasks } = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  const [, ...words] = tasks.mcp.command.split(" ");
  const file = await Deno.makeTempFile({ dir: "/tmp", suffix: ".json" });
  await Deno.writeTextFile(file, JSON.stringify({ mcpServers: servers }));
  try {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [...words, ...args, "--config", file],
      cwd: root,
      env: { NO_COLOR: "1" },
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, out: text(stdout), err: text(stderr) };
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("loophub mcp looks at servers with the permissions of its task", async () => {
  const good = scripted({
    tools: [{ name: "one", description: "Does one thing", inputSchema: {} }],
  });
  const servers = { good, bad: { command: "no-such-program-here" } };
  const list = await command(servers, ["list"]);
  assert.equal(list.code, 0, list.err);
  assert.match(list.out, /^good {2}stdio {2}good__\*.*\nbad {2}stdio/);
  const tested = await command(servers, ["test"]);
  assert.equal(tested.code, 1, tested.err);
  assert.match(tested.out, /^bad: backoff \(.*could not be started.*\)\ngood: ready, 1 tools\n$/);
  const tools = await command(servers, ["tools", "good"]);
  assert.deepEqual([tools.code, tools.out], [0, "good__one  Does one thing\n"]);
  const unknown = await command(servers, ["test", "other"]);
  assert.match(unknown.err, /There is no MCP server other; configured are good, bad/);
});
