import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { bubblewrap } from "../operations/files/rig.ts";
import {
  answer,
  approvalsOf,
  checkStreams,
  start,
  untilWaiting,
} from "../support/approvals_rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withReplicas } from "../support/test_hub.ts";

const UNSET = { all: null, hash: null };

Deno.test("a person sees what a call would change, and nothing else is changed", async (t) => {
  const upstream = await startScriptedUpstream();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-previews-" }));
  const file = `${dir}/a.txt`;
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    workspace: { dir, shell: { allow: ["ls -a"] } },
    agents: {
      default: {
        tools: ["file.*", "shell.*"],
        approvals: { rules: [{ effects: ["effect", "idempotent"], tier: "ask" }] },
      },
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  /** The model makes this call, and reads what came of it. */
  const script = (name: string, input: JsonObject) => {
    const read: string[] = [];
    let isFirst = true;
    upstream.script((request) => {
      read.push(JSON.stringify(request.json["messages"]));
      if (!isFirst) return chatStream({ text: "Done" });
      isFirst = false;
      return chatStream({ toolCalls: [{ name, arguments: input }] });
    });
    return () => read.at(-1) ?? "";
  };
  const edit = { path: "a.txt", oldText: "two", newText: "2", ...UNSET };
  try {
    await withReplicas([config, config], async (first, second) => {
      await t.step("an edit is approved and done", async () => {
        await Deno.writeTextFile(file, "one\ntwo\n");
        script("file_edit", edit);
        const { runId, stream } = await start(first);
        const [asked] = await untilWaiting(second, runId);
        const preview = {
          kind: "diff",
          path: "a.txt",
          diff: "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
        };
        assert.deepEqual(asked.preview, preview);
        assert.equal(await Deno.readTextFile(file), "one\ntwo\n");
        await answer(second, runId, asked.id, { approved: true, hash: asked.hash });
        const events = await checkStreams(stream, [first, second], runId);
        const request = events.find((event) => event.type === "tool-approval-request");
        assert.deepEqual(request?.preview, preview);
        assert.equal(await Deno.readTextFile(file), "one\n2\n");
      });

      await t.step(
        "a file that was changed meanwhile is left alone, and the model reads why",
        async () => {
          for (const tool of ["file_edit", "file_write"]) {
            await Deno.writeTextFile(file, "one\ntwo\n");
            const write = {
              path: "a.txt",
              content: "all new",
              encoding: null,
              overwrite: null,
              hash: null,
            };
            const read = script(tool, tool === "file_edit" ? edit : write);
            const { runId, stream } = await start(first);
            const [asked] = await untilWaiting(second, runId);
            await Deno.writeTextFile(file, "somebody's two\n");
            await answer(second, runId, asked.id, { approved: true });
            await checkStreams(stream, [first, second], runId);
            assert.match(read(), /was changed since a person was asked/);
            assert.equal(await Deno.readTextFile(file), "somebody's two\n");
          }
        },
      );

      await t.step("nobody is asked for what cannot be done", async () => {
        for (
          const [tool, input, why] of [
            ["file_edit", { ...edit, oldText: "never there" }, /oldText does not occur/],
            ["file_delete", { path: "gone", recursive: null }, /nothing at/],
            ["shell_run", { command: "id", args: null, cwd: null, timeoutMs: null }, /may not run/],
          ] as const
        ) {
          if (tool === "shell_run" && !bubblewrap.works) continue;
          const read = script(tool, input);
          const { stream } = await start(first);
          assert.doesNotMatch(await stream, /tool-approval-request/);
          assert.match(read(), why);
        }
      });

      await t.step({
        name: "a command is shown as it would run",
        ignore: !bubblewrap.works,
        fn: async () => {
          await Deno.mkdir(`${dir}/sub`);
          const read = script("shell_run", {
            command: "ls",
            args: ["-a"],
            cwd: "./sub/../sub",
            timeoutMs: null,
          });
          const { runId, stream } = await start(first);
          const [asked] = await untilWaiting(second, runId);
          const preview = { kind: "command", argv: ["ls", "-a"], cwd: "sub" };
          assert.deepEqual([asked.preview, asked.risk], [preview, "high"]);
          await answer(first, runId, asked.id, { approved: true });
          await stream;
          assert.match(read(), /exit code 0/);
          assert.deepEqual((await approvalsOf(second, runId))[0].preview, preview);
        },
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(dir, { recursive: true });
  }
});
