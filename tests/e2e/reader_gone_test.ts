import assert from "node:assert/strict";
import { command, startCommand } from "../support/hub_process.ts";
import { chatFrames, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

Deno.test("a command whose reader goes away ends quietly with 141, and stops what it began", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-reader-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream", maxRetries: 0 } },
    defaultModel: "up/first",
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const statusOf = async (runId: string) => {
    const { out } = await command(folder, ["runs", "--json"]);
    const runs = out.trim().split("\n").map((line) => JSON.parse(line));
    return runs.find((run) => run.runId === runId)?.status;
  };
  /** An answer that says something, then more when asked to, and never ends. */
  const scriptEndless = () => {
    const more = Promise.withResolvers<void>();
    const never = Promise.withResolvers<void>();
    const [role = "", first = "", ...rest] = chatFrames({ text: "One two three four five" });
    upstream.script({
      headers: { "content-type": "text/event-stream" },
      frames: [role, first, { wait: more.promise }, ...rest.slice(0, 2), { wait: never.promise }],
    });
    return { more: more.resolve, end: never.resolve };
  };
  try {
    await t.step("what is printed at once", async () => {
      const schema = await startCommand(folder, ["schema"]);
      await schema.leaveOutput();
      assert.deepEqual([await schema.ended(), schema.err()], [141, ""]);
    });

    for (const args of [["run", "--json", "Hi"], ["chat"]]) {
      await t.step(`${args[0]}: its run is stopped`, async () => {
        const answer = scriptEndless();
        try {
          const child = await startCommand(folder, args, {}, args[0] === "chat" ? "Hi\n" : "");
          await eventually(() => /One/.test(child.out()) || undefined);
          await child.leaveOutput();
          answer.more();
          assert.equal(await child.ended(), 141, child.err());
          assert.doesNotMatch(child.err(), /BrokenPipe|^ +at /m);
        } finally {
          answer.end();
        }
        const { out } = await command(folder, ["runs", "--json"]);
        const [run] = out.trim().split("\n").map((line) => JSON.parse(line));
        assert.equal(run.status, "cancelled", out);
      });
    }

    await t.step("runs watch leaves, and says so", async () => {
      upstream.script(chatStream({ text: "Fine" }));
      const done = await command(folder, ["run", "--json", "Hi"]);
      const { runId } = JSON.parse(done.out.split("\n")[0] ?? "");
      const watch = await startCommand(folder, ["runs", "watch", runId, "--json"]);
      await watch.leaveOutput();
      assert.deepEqual([await watch.ended(), watch.err()], [141, ""]);
      assert.equal(await statusOf(runId), "completed");
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
