import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { answer, start, untilWaiting } from "../support/approvals_rig.ts";
import { command } from "../support/hub_process.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

type Call = [name: string, input: JsonObject];

const write = (path: string): Call => [
  "file_write",
  { path, content: "new", encoding: null, overwrite: null, hash: null },
];
const edit: Call = [
  "file_edit",
  { path: "old.txt", oldText: "old", newText: "newer", all: null, hash: null },
];
const move: Call = ["file_move", { from: "old.txt", to: "moved.txt", overwrite: null }];
const remove: Call = ["file_delete", { path: "old.txt", recursive: null }];
const run: Call = ["shell_run", { command: "ls", args: null, cwd: null, timeoutMs: null }];
const script: Call = ["shell_script", { script: "ls", cwd: null, timeoutMs: null }];
const read: Call = ["file_read", { path: "old.txt", offset: null, limit: null }];
const list: Call = ["file_list", { path: ".", offset: null }];

async function withWorkspace(
  settings: { workspace?: JsonObject; agents?: JsonObject },
  body: (parts: {
    hub: TestHub;
    dir: string;
    /** The next run makes these calls, each in a step of its own; gives what its model read. */
    say(...calls: Call[]): string[];
  }) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-asked-" }));
  await Deno.writeTextFile(`${dir}/old.txt`, "old\n");
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    workspace: {
      dir,
      securityMode: "full-control",
      sandbox: "off",
      shell: { script: true },
      ...settings.workspace,
    },
    ...settings.agents === undefined ? {} : { agents: settings.agents },
  };
  const say = (...calls: Call[]) => {
    const results: string[] = [];
    const left = [...calls];
    upstream.script(({ json }) => {
      const messages = json["messages"] as { role: string; content: string }[];
      const last = messages.at(-1);
      if (last?.role === "tool") results.push(last.content);
      const [name, input = {}] = left.shift() ?? [];
      if (name === undefined) return chatStream({ text: "Done" });
      return chatStream({ toolCalls: [{ name, arguments: input }] });
    });
    return results;
  };
  try {
    await withHub(config, (hub) => body({ hub, dir, say }));
  } finally {
    await upstream.stop();
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("without any rule a person is asked before files are changed and commands run, once a session", async (t) => {
  await withWorkspace({}, async ({ hub, dir, say }) => {
    for (const call of [write("a.txt"), edit, move, remove, run, script]) {
      await t.step(`${call[0]} asks`, async () => {
        say(call);
        const { runId, stream } = await start(hub);
        const [asked] = await untilWaiting(hub, runId);
        assert.deepEqual([asked.toolName, asked.tier, asked.tainted], [
          call[0].replace("_", "."),
          "session",
          [],
        ]);
        const waitMs = Date.parse(asked.expiresAt) - Date.parse(asked.createdAt);
        assert.ok(Math.abs(waitMs - 600_000) < 2000, `a person is waited for ${waitMs} ms`);
        await answer(hub, runId, asked.id, { approved: false });
        assert.match(await stream, /a person denied it/);
      });
    }

    await t.step("reads do not", async () => {
      const results = say(read, list);
      const { stream } = await start(hub);
      assert.doesNotMatch(await stream, /tool-approval-request/);
      assert.equal(results.length, 2);
    });

    await t.step("an approval holds for the session, and for no other", async () => {
      say(write("a.txt"));
      const first = await start(hub);
      const [asked] = await untilWaiting(hub, first.runId);
      const { session } = first;
      await answer(hub, first.runId, asked.id, { approved: true });
      await first.stream;
      assert.equal(await Deno.readTextFile(`${dir}/a.txt`), "new");
      say(write("b.txt"));
      assert.doesNotMatch(
        await (await start(hub, { session })).stream,
        /tool-approval-request/,
      );
      assert.equal(await Deno.readTextFile(`${dir}/b.txt`), "new");
      say(write("c.txt"));
      const other = await start(hub);
      const [again] = await untilWaiting(hub, other.runId);
      assert.equal(again.toolName, "file.write");
      await answer(hub, other.runId, again.id, { approved: false });
      await other.stream;
    });
  });
});

Deno.test("workspace.approval and an agent's rules say who is asked instead", async (t) => {
  const tierOf = async (hub: TestHub, agent: string) => {
    const { tools } = await (await hub.call(`/v1/agents/${agent}`)).json();
    return tools.find(({ name }: { name: string }) => name === "file.write").approval;
  };
  const agents = {
    default: {},
    ruled: { approvals: { rules: [{ tools: ["file.*"], tier: "auto" }] } },
    own: { workspace: { dir: "/srv" } },
  };
  await t.step("never: no person is asked", async () => {
    await withWorkspace({ workspace: { approval: "never" }, agents }, async ({ hub, dir, say }) => {
      say(write("a.txt"), run);
      assert.doesNotMatch(await (await start(hub)).stream, /tool-approval-request/);
      assert.equal(await Deno.readTextFile(`${dir}/a.txt`), "new");
      assert.equal(await tierOf(hub, "own"), "session", "a workspace of its own says for itself");
    });
  });
  await t.step("a rule counts before it", async () => {
    await withWorkspace({ workspace: { approval: "always" }, agents }, async ({ hub, say }) => {
      assert.deepEqual([await tierOf(hub, "default"), await tierOf(hub, "ruled")], [
        "always",
        "never",
      ]);
      say(write("a.txt"));
      const { stream } = await start(hub, { agent: "ruled" });
      assert.doesNotMatch(await stream, /tool-approval-request/);
    });
  });
});

Deno.test("where no person can answer, the end of the wait denies, and says what to set", async (t) => {
  const upstream = await startScriptedUpstream();
  const folder = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-alone-" }),
  );
  await Deno.chmod(folder, 0o755);
  await Deno.mkdir(`${folder}/ws`);
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    workspace: { dir: "ws" },
    runs: { approvalTimeoutMs: 1000 },
  };
  const denied =
    /Not executed: nobody approved it in time\. Where people need longer, set runs\.approvalTimeoutMs; where nobody is there, set a rule for file\.write with the tier/;
  const calls = [
    chatStream({ toolCalls: [{ name: "file_write", arguments: write("a.txt")[1] }] }),
    chatStream({ text: "I could not write" }),
  ];
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    await t.step("loophub run", async () => {
      upstream.script(calls);
      const done = await command(folder, ["run", "Write"]);
      assert.deepEqual([done.code, done.out], [0, "I could not write\n"], done.err);
      assert.match(done.err, denied);
      assert.deepEqual([...Deno.readDirSync(`${folder}/ws`)], []);
    });
    await t.step("an agent as a model", async () => {
      await withHub({ ...config, workspace: { dir: `${folder}/ws` } }, async (hub) => {
        upstream.script(calls);
        const reply = await hub.call("/v1/chat/completions", {
          body: { model: "agent/default", messages: [{ role: "user", content: "Write" }] },
        });
        const { choices } = await reply.json();
        assert.equal(choices[0].message.content, "I could not write");
        assert.match(JSON.stringify(upstream.requests.at(-1)?.json["messages"]), denied);
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
