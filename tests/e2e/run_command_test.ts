import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { chatError, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { command, startCommand } from "../support/hub_process.ts";

Deno.test("loophub run: its options, its input and its exit codes", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-run-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const config = {
    providers: {
      up: {
        baseUrl: upstream.url,
        apiKey: "sk-upstream",
        maxRetries: 0,
        models: {
          first: {},
          second: {},
          narrow: { contextWindow: 4000, contextBuffer: 1500, maxOutputTokens: 300 },
        },
      },
    },
    defaultModel: "up/first",
    agents: {
      brief: { systemPrompt: "Be brief", maxSteps: 2 },
      narrow: { tools: ["test.*"], compaction: false },
    },
    operations: {
      modules: [new URL("../fixtures/operations/long_list.ts", import.meta.url).pathname],
    },
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const run = (...args: string[]) => command(folder, ["run", ...args]);
  const lastRequest = () =>
    upstream.requests.at(-1)?.json as {
      model: string;
      messages: { role: string; content: string }[];
    };
  try {
    let session = "";
    await t.step(
      "the answer alone is on stdout; --agent and --model are what is asked",
      async () => {
        upstream.script(chatStream({ text: "Hello there" }));
        const done = await run("Say", "hello", "--agent", "brief", "--model", "up/second");
        assert.deepEqual([done.code, done.out], [0, "Hello there\n"], done.err);
        const { model, messages } = lastRequest();
        assert.equal(model, "second");
        assert.match(messages[0]?.content ?? "", /^Be brief/);
        assert.equal(messages.at(-1)?.content, "Say hello");
        session = /session (ses_\S+)/.exec(done.err)?.[1] ?? "";
      },
    );

    await t.step("--session goes on, stdin is the prompt, --json gives events", async () => {
      upstream.script(chatStream({ text: "Again" }));
      const args = ["run", "--session", session, "--json"];
      const done = await command(folder, args, {}, "And\nagain\n");
      assert.equal(done.code, 0, done.err);
      const events = done.out.trim().split("\n").map((line) => JSON.parse(line) as HubEvent);
      assert.equal(events[0]?.type === "start" && events[0].sessionId, session);
      assert.equal(events.at(-1)?.type, "finish");
      const turns = lastRequest().messages.map(({ role, content }) => `${role}: ${content}`);
      assert.deepEqual(turns.slice(-3), [
        "user: Say hello",
        "assistant: Hello there",
        "user: And\nagain",
      ]);
    });

    await t.step("1: the run failed, or could not begin", async () => {
      upstream.script(chatError(400, { message: "no such thing" }));
      const failed = await run("Hi");
      assert.deepEqual([failed.code, failed.out], [1, ""]);
      assert.match(failed.err, /^error upstream_rejected: .*no such thing/m);
      const cases: [args: string[], told: RegExp][] = [
        [["--agent", "nobody"], /no agent "nobody"/],
        [["--model", "nothing"], /model "nothing" does not exist/],
        [["--session", `ses_${"0".repeat(32)}`], /no session/],
        [["--session", "x"], /ids here look like ses_/],
        [["--accounting", "/nowhere/x"], /cannot be written/],
      ];
      for (const [args, told] of cases) {
        const refused = await run("Hi", ...args);
        assert.equal(refused.code, 1, args.join(" "));
        assert.match(refused.err, told);
      }
    });

    await t.step("4: the last allowed step was taken", async () => {
      const call = { name: "hub_wait", arguments: { seconds: 0 } };
      upstream.script(() => chatStream({ toolCalls: [call], text: "More" }));
      const ended = await run("Work for ever", "--agent", "brief");
      assert.equal(ended.code, 4, ended.err);
      assert.match(ended.err, /^max-steps: /m);
    });

    await t.step("5: the conversation has filled the window; --accounting tells how", async () => {
      const call = (lines: number) => ({ name: "test_long_list", arguments: { lines } });
      upstream.script(({ json }, index) =>
        json["tool_choice"] === "none"
          ? chatStream({ text: "Enough" })
          : chatStream({ toolCalls: [call(40 + index)] })
      );
      const file = `${folder}/accounting.jsonl`;
      const options = ["--agent", "narrow", "--model", "up/narrow", "--accounting", file];
      const ended = await run("Read on", ...options);
      assert.deepEqual([ended.code, ended.out], [5, "Enough\n"], ended.err);
      assert.match(ended.err, /^token-limit: /m);
      const lines = (await Deno.readTextFile(file)).trim().split("\n").map((line) =>
        JSON.parse(line)
      );
      const calls = lines.filter(({ type }) => type === "llm");
      for (const { projectedTokens, limitTokens, remainingTokens } of calls) {
        assert.equal(limitTokens, 2200);
        assert.equal(remainingTokens, 2200 - projectedTokens);
      }
      assert.ok(calls.length > 1 && calls.at(-1)?.remainingTokens < 0);
      assert.ok(lines.some(({ type, status }) => type === "tool" && status === "ok"));
      const { finishReason, exitReason } = lines.at(-1);
      assert.deepEqual([finishReason, exitReason], ["token-limit", "EXIT-TOKEN-LIMIT"]);
    });

    await t.step("130: Ctrl-C stops the run, which ends as stopped", async () => {
      upstream.script(chatStream({ text: "Well", endAfter: 2, end: "stall" }));
      const before = upstream.requests.length;
      const running = await startCommand(folder, ["run", "Take your time"]);
      await upstream.until(() => upstream.requests.length > before);
      assert.equal(await running.end("SIGINT"), 130, running.err());
      assert.match(running.err(), /^aborted: /m);
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
