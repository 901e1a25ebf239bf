import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { bubblewrap } from "../operations/files/rig.ts";
import { noneWith, processesWith } from "../support/processes.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";

interface ChatBody {
  messages: { role: string; content: string }[];
  tools?: { function: { name: string } }[];
}

const bodyOf = (request: RecordedRequest) => request.json as unknown as ChatBody;
const toolsOf = (request: RecordedRequest) =>
  (bodyOf(request).tools ?? []).map((tool) => tool.function.name);

/** What an agent's run of these calls, one after the other, gives: the results as the model reads them. */
async function run(
  hub: TestHub,
  upstream: Awaited<ReturnType<typeof startScriptedUpstream>>,
  { agent = "default", calls }: { agent?: string; calls: [string, JsonObject][] },
): Promise<{ results: string[]; offered: string[] }> {
  const results: string[] = [];
  let offered: string[] = [];
  let next = 0;
  upstream.script((request) => {
    offered = toolsOf(request);
    const last = bodyOf(request).messages.at(-1);
    if (last?.role === "tool") results.push(last.content);
    const [name, input] = calls[next++] ?? [];
    if (name === undefined || input === undefined) return chatStream({ text: "Done" });
    return chatStream({ toolCalls: [{ name, arguments: input }] });
  });
  const session = await (await hub.call("/v1/sessions", { body: {} })).json();
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
    body: { text: "Go", stream: false, agent },
  });
  const { run } = await answer.json();
  assert.equal(run.finishReason, "stop");
  return { results, offered };
}

Deno.test("an agent reads, edits and runs a command in its workspace, and nowhere else", async () => {
  const upstream = await startScriptedUpstream();
  const made = await Deno.makeTempDir({ prefix: "loophub-work-" });
  const base = await Deno.realPath(made);
  const dir = `${base}/ws`;
  await Deno.mkdir(dir);
  await Deno.writeTextFile(`${base}/secret`, "a secret");
  await Deno.writeTextFile(`${dir}/sum.sh`, "echo $((1 + 1))\n");
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    workspace: { dir, shell: { allow: ["sh sum.sh"] }, approval: "never" },
    agents: {
      default: { tools: ["file.*", "shell.*"], approvals: { tainted: "allow" } },
      free: {
        tools: ["file.*"],
        workspace: { dir, securityMode: "full-control", approval: "never" },
      },
      talker: { workspace: false },
    },
  };
  const unset = { offset: null, limit: null };
  try {
    await withHub(config, async (hub) => {
      const limited = await run(hub, upstream, {
        calls: [
          ["file_read", { path: "sum.sh", ...unset }],
          ["file_edit", {
            path: "sum.sh",
            oldText: "1 + 1",
            newText: "20 + 22",
            all: null,
            hash: null,
          }],
          ["file_read", { path: "../secret", ...unset }],
          ...bubblewrap.works
            ? [
              ["shell_run", { command: "sh", args: ["sum.sh"], cwd: null, timeoutMs: null }],
              ["shell_run", { command: "cat", args: ["../secret"], cwd: null, timeoutMs: null }],
            ] as [string, JsonObject][]
            : [],
        ],
      });
      if (bubblewrap.works) {
        assert.match(limited.results[3] ?? "", /^exit code 0 after \d+ ms\n--- stdout\n42$/);
        assert.match(limited.results[4] ?? "", /"cat \.\.\/secret" may not run here/);
      }
      assert.match(limited.results[0] ?? "", /^1: echo \$\(\(1 \+ 1\)\)\n/);
      assert.match(limited.results[1] ?? "", /^Replaced once in sum\.sh/);
      assert.match(limited.results[2] ?? "", /outside of the workspace/);
      assert.equal(await Deno.readTextFile(`${dir}/sum.sh`), "echo $((20 + 22))\n");
      assert.deepEqual(limited.offered, [
        "file_delete",
        "file_edit",
        "file_glob",
        "file_grep",
        "file_list",
        "file_move",
        "file_read",
        "file_stat",
        "file_write",
        ...bubblewrap.works ? ["shell_run"] : [],
      ]);
      const free = await run(hub, upstream, {
        agent: "free",
        calls: [["file_read", { path: "../secret", ...unset }]],
      });
      assert.match(free.results[0] ?? "", /1: a secret/);
      const talker = await run(hub, upstream, { agent: "talker", calls: [] });
      assert.deepEqual(talker.offered.filter((name) => name.startsWith("file")), []);
      const calls = await hub.hub.start.db
        .read`select tool_name, effect, state from hub.tool_calls
              where tool_name like 'file.%' order by started_at`;
      assert.deepEqual(calls.map((row) => [row["tool_name"], row["effect"], row["state"]]), [
        ["file.read", "pure", "succeeded"],
        ["file.edit", "effect", "succeeded"],
        ["file.read", "pure", "failed"],
        ["file.read", "pure", "succeeded"],
      ]);
    });
  } finally {
    await upstream.stop();
    await Deno.remove(base, { recursive: true });
  }
});

/** How a killed hub's operations were held. */
const HELD = [
  { securityMode: "limited-control", sandbox: "auto" },
  { securityMode: "full-control", sandbox: "auto" },
  { securityMode: "full-control", sandbox: "off" },
].filter(({ securityMode }) => securityMode === "full-control" || bubblewrap.works);

Deno.test("a hub that is killed takes along what its operations had started", async (t) => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-work-" }));
  let key: string | undefined;
  const masterKey = crypto.getRandomValues(new Uint8Array(32)).toHex();
  const secret = `secret-${crypto.randomUUID()}`;
  /** Kills a hub while it makes a call that writes the file `ready` and never ends; gives the folder of its workspace. */
  const kill = async (
    { mark, name, input, workspace, bin = "" }: {
      mark: string;
      name: string;
      input: JsonObject;
      workspace: JsonObject;
      bin?: string;
    },
  ): Promise<string> => {
    const [folder, dir] = [`${base}/${mark}`, `${base}/${mark}-ws`];
    await Deno.mkdir(folder);
    await Deno.mkdir(`${dir}/old`, { recursive: true });
    const config = {
      providers: { one: { baseUrl: upstream.url, apiKey: "${SECRET}" } },
      defaultModel: "one/m",
      workspace: { ...workspace, dir, shell: { script: true }, approval: "never" },
      agents: { default: { tools: ["shell.script", "file.*"] } },
    };
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    upstream.script(chatStream({ toolCalls: [{ name, arguments: input }] }));
    const hub = await startHubProcess(folder, {
      DATABASE_URL: postgres.url,
      LOOPHUB_MASTER_KEY: masterKey,
      SECRET: secret,
      PATH: bin + Deno.env.get("PATH"),
    });
    try {
      const call = (path: string, body: JsonObject) =>
        fetch(hub.url + path, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify(body),
        });
      key ??= await eventually(() => hub.key());
      const session = (await (await call("/v1/sessions", {})).json()).id;
      const answer = await call(`/v1/sessions/${session}/messages`, { text: "Go" });
      await eventually(() => Deno.stat(`${dir}/ready`).catch(() => null));
      await eventually(async () => (await processesWith(mark)).length > 0 || null);
      void answer.body?.cancel();
    } finally {
      await hub.end("SIGKILL");
    }
    await noneWith(mark);
    return dir;
  };
  try {
    for (const workspace of HELD) {
      const { securityMode, sandbox } = workspace;
      await t.step(`a command, ${securityMode}, sandbox ${sandbox}`, async () => {
        const mark = `mark-${crypto.randomUUID()}`;
        const sleepers = `setsid sh -c "sleep 600; : ${mark}" & trap "" TERM`;
        const look = "cat /proc/*/environ /proc/[0-9]*/cmdline > seen";
        const script = `${look}; ${sleepers}; touch ready; sleep 600; sleep 600`;
        const input = { script, cwd: null, timeoutMs: null };
        const dir = await kill({ mark, name: "shell_script", input, workspace });
        const seen = await Deno.readTextFile(`${dir}/seen`);
        assert.match(seen, /PATH=/);
        const isBoxed = sandbox !== "off" && bubblewrap.works;
        if (isBoxed) assert.ok(!seen.includes(secret) && !seen.includes(masterKey), seen);
      });
    }
    const calls: [program: string, name: string, input: JsonObject][] = [
      ["rm", "file_delete", { path: "old", recursive: true }],
      ["find", "file_glob", { pattern: "**/*.ts", path: null }],
    ];
    for (const [program, name, input] of calls) {
      await t.step(`${name}, sandbox off`, async () => {
        const mark = `mark-${crypto.randomUUID()}`;
        const bin = `${base}/bin-${program}`;
        await Deno.mkdir(bin);
        // One that has much to do, and more programs to do it with.
        const text = `#!/bin/sh\ntouch ready\nsh -c "sleep 600; : ${mark}"\n`;
        await Deno.writeTextFile(`${bin}/${program}`, text, { mode: 0o755 });
        const workspace = { securityMode: "limited-control", sandbox: "off" };
        await kill({ mark, name, input, workspace, bin: `${bin}:` });
      });
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(base, { recursive: true });
  }
});
