import assert from "node:assert/strict";
import { COMMAND_LINE } from "../../src/cli/command_line.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { answer, start, untilWaiting } from "../support/approvals_rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { loadTestConfig, type TestHub, withHub } from "../support/test_hub.ts";

interface ChatBody {
  messages: { role: string; content: string }[];
  tools?: { function: { name: string } }[];
  tool_choice?: unknown;
}

/** A hub without a workspace, and a folder that may become one while it runs. */
async function withReloads(
  body: (parts: {
    hub: TestHub;
    dir: string;
    /** The hub has this beside its providers from now on. */
    reload(changed: JsonObject): Promise<void>;
    /** The next run answers with these calls, each in a step of its own, and each made when its turn comes. */
    say(...calls: (() => Promise<[name: string, input: JsonObject]>)[]): ChatBody[];
  }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-later-" }));
  await Deno.writeTextFile(`${dir}/a.txt`, "one\n");
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
  };
  try {
    await withHub(config, (hub) =>
      body({
        hub,
        dir,
        reload: async (changed) =>
          await hub.hub.reload(await loadTestConfig({ ...config, ...changed }, hub)),
        say(...calls) {
          const requests: ChatBody[] = [];
          upstream.script(async ({ json }) => {
            requests.push(json as unknown as ChatBody);
            const call = await calls[requests.length - 1]?.();
            if (call === undefined) return chatStream({ text: "Done" });
            return chatStream({ toolCalls: [{ name: call[0], arguments: call[1] }] });
          });
          return requests;
        },
      }));
  } finally {
    await upstream.stop();
    await Deno.remove(dir, { recursive: true });
  }
}

const read = () =>
  Promise.resolve<[string, JsonObject]>([
    "file_read",
    { path: "a.txt", offset: null, limit: null },
  ]);
const toolsOf = (request: ChatBody | undefined) =>
  (request?.tools ?? []).map((tool) => tool.function.name);
const lastResult = (requests: ChatBody[]) => requests.at(-1)?.messages.at(-1)?.content ?? "";

Deno.test("the first workspace that comes with a changed file is there for the next run", async (t) => {
  const settings = { sandbox: "off", shell: { allow: ["ls"] } };
  for (
    const [name, changed] of [
      ["the hub's", (dir: string) => ({ workspace: { dir, ...settings } })],
      [
        "an agent's",
        (dir: string) => ({ agents: { default: { workspace: { dir, ...settings } } } }),
      ],
    ] as const
  ) {
    await t.step(name, async () => {
      await withReloads(async ({ hub, dir, reload, say }) => {
        const before = say();
        const { session, stream } = await start(hub);
        await stream;
        assert.ok(!toolsOf(before[0]).includes("file_read"));
        await reload(changed(dir));
        const requests = say(read);
        await (await start(hub, { session })).stream;
        assert.ok(toolsOf(requests[0]).includes("file_read"), "an earlier session has it too");
        assert.ok(toolsOf(requests[0]).includes("shell_run"));
        assert.match(lastResult(requests), /^1: one/);
      });
    });
  }
});

Deno.test("a run with a plan before work proposes one at once in a workspace that has just come", async () => {
  await withReloads(async ({ hub, dir, reload, say }) => {
    await reload({
      workspace: { dir },
      agents: { default: { tools: ["file.*"], preflight: { when: "always" } } },
    });
    const plan = { steps: [{ tool: "file.read", purpose: "To know it" }] };
    const requests = say(() => Promise.resolve(["hub_propose_plan", plan]), read);
    const { runId, stream } = await start(hub);
    const [asked] = await untilWaiting(hub, runId);
    assert.deepEqual(requests[0]?.tool_choice, {
      type: "function",
      function: { name: "hub_propose_plan" },
    });
    await answer(hub, runId, asked.id, { approved: true });
    await stream;
    assert.match(lastResult(requests), /^1: one/);
  });
});

Deno.test("calls of a run that began with a workspace which is gone or another one by now are refused", async (t) => {
  const write = (path: string) => ({ path, content: "x", encoding: null, hash: null });
  const approval = "never";
  await withReloads(async ({ hub, dir, reload, say }) => {
    const agents = { default: { approvals: { tainted: "allow" } } };
    for (
      const [name, changed, why] of [
        ["taken away", {}, /its workspace is not configured any more/],
        ["another folder", { workspace: { dir: "/srv", approval } }, /its workspace has changed/],
        ["its agent is gone", { agents: {} }, /its workspace is not configured any more/],
      ] as const
    ) {
      await t.step(name, async () => {
        await reload({ agents, workspace: { dir, approval } });
        const requests = say(read, async () => {
          await reload(changed);
          return ["file_write", write("b.txt")];
        });
        await (await start(hub)).stream;
        assert.match(requests[1]?.messages.at(-1)?.content ?? "", /^1: one/);
        assert.match(lastResult(requests), why);
        assert.deepEqual([...Deno.readDirSync(dir)].map(({ name }) => name), ["a.txt"]);
      });
    }
    await t.step("the one that it has goes on", async () => {
      await reload({ agents, workspace: { dir, approval } });
      const requests = say(async () => {
        await reload({ agents: { ...agents, other: {} }, workspace: { dir, approval: "ask" } });
        return ["file_write", write("b.txt")];
      });
      await (await start(hub)).stream;
      assert.match(lastResult(requests), /b\.txt/);
      assert.equal(await Deno.readTextFile(`${dir}/b.txt`), "x");
    });
  });
});

Deno.test("the first MCP server that comes with a changed file is waited for by the run right behind it", async () => {
  await withReloads(async ({ hub, reload }) => {
    await reload({ mcpServers: { docs: { command: "true" } } });
    const agent = await hub.hub.findAgent("default").prepare?.(COMMAND_LINE, null);
    assert.deepEqual(hub.hub.mcp.connections.map(({ name }) => name), ["docs"]);
    await agent?.release?.();
  });
});
