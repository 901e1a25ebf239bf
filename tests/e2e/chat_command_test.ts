import assert from "node:assert/strict";
import { startAsking } from "../support/asking_server.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { command, startCommand } from "../support/hub_process.ts";
import { startTcpProxy } from "../support/tcp_proxy.ts";
import { hasScript, typed } from "../support/typed_chat.ts";
import { eventually, withHub } from "../support/test_hub.ts";

const ESCAPES = "\x1b]0;title\x07\x1b[2J\u202e";
const ESCAPED = "\\u001b]0;title\\u0007\\u001b[2J\\u202e";
const agents = {
  default: { description: `Usual ${ESCAPES}`, approvals: { ask: ["hub.calculate"] } },
  short: { maxSteps: 1 },
};
const calculate = (expression: string) =>
  chatStream({ toolCalls: [{ name: "hub_calculate", arguments: { expression } }] });

Deno.test("loophub chat: a script talks with a hub in its process, answers what is asked, and ends with the right code", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-chat-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream", maxRetries: 0 } },
    defaultModel: "up/first",
    agents,
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const chat = (lines: string[], ...args: string[]) =>
    command(folder, ["chat", ...args], {}, lines.map((line) => `${line}\n`).join(""));
  let session = "";
  try {
    await t.step("words alone are on stdout; a call runs when a person says yes", async () => {
      upstream.script((_, index) =>
        index === 0 ? calculate("6*7") : chatStream({ text: `Answer ${index} ${ESCAPES}` })
      );
      const done = await chat(["What is it?", "perhaps", "yes", "/cost", "", "And then?"]);
      assert.equal(done.code, 0, done.err);
      assert.equal(done.out, `Answer 1 ${ESCAPES}\nAnswer 2 ${ESCAPES}\n`);
      assert.match(done.err, /^hub.calculate wants to run \(risk low\): {"expression":"6\*7"}$/m);
      assert.match(
        done.err,
        /^Please answer: allow it\? once \/ session \/ always \/ no \[why\]$/m,
      );
      assert.match(done.err, /=> {"expression":"6\*7","result":42}$/m);
      assert.match(done.err, /^\d+ \+ \d+ tokens, cost unknown$/m);
      session = /session (ses_\S+)/.exec(done.err)?.[1] ?? "";
    });

    await t.step("no, and the end of the input, deny it", async () => {
      upstream.script((request) =>
        chatStream(
          request.messages.at(-1)?.role === "user"
            ? { toolCalls: [{ name: "hub_calculate", arguments: { expression: ESCAPES } }] }
            : { text: "Well then" },
        )
      );
      const done = await chat(["Do it", "no it is late", "Do it again"], "--session", session);
      assert.equal(done.code, 0, done.err);
      assert.match(done.err, /denied: it is late$/m);
      assert.match(done.err, /denied: nobody is here to answer$/m);
      assert.equal(done.out, "Well then\nWell then\n");
      assert.match(done.err, /^user: What is it\?$/m);
    });

    await t.step("nothing that models, agents or sessions say steers a terminal", async () => {
      upstream.script((request) =>
        request.messages.at(-1)?.role === "user" ? calculate(ESCAPES) : chatStream({ text: "Done" })
      );
      const done = await chat([
        "Go",
        `no ${ESCAPES}`,
        "/agents",
        `/x${ESCAPES}`,
        `/resume ${session}`,
      ]);
      assert.ok(
        ![...done.err].some((character) => character < " " && character !== "\n"),
        done.err,
      );
      assert.ok(!done.err.includes("\u202e"));
      assert.ok(done.err.includes(`* default  up/first  Usual ${ESCAPED}`), done.err);
      assert.ok(done.err.includes(`assistant: Answer 2 ${ESCAPED}`), done.err);
    });

    await t.step("a plan is changed, and agreed to; an answer holds for the session", async () => {
      const names = ["hub_calculate", "hub_current_time"];
      upstream.script((request) => {
        const last = request.messages.at(-1);
        if (last?.role === "user") {
          const steps = names.map((tool) => ({ tool, purpose: "It is needed" }));
          return chatStream({ toolCalls: [{ name: "hub_propose_plan", arguments: { steps } }] });
        }
        return /isSkipped/.test(last?.content ?? "")
          ? chatStream({
            toolCalls: names.map((name) => ({ name, arguments: { expression: "1+1" } })),
          })
          : chatStream({ text: "Done" });
      });
      const lines = ["Go", "perhaps", "skip 2", "yes", "session", "Again", "no not again"];
      const done = await chat(lines, "--preflight");
      assert.equal(done.code, 0, done.err);
      assert.match(done.err, /^ {2}2\. SKIPPED hub\.current_time \(risk low\): It is needed$/m);
      assert.match(done.err, /^Please answer: go on\? yes/m);
      assert.match(done.err, /hub\.current_time => failed: .*skipped this step/);
      assert.match(done.err, /hub\.propose_plan => failed: .*denied it: not again$/m);
      assert.equal(done.out, "Done\nDone\n");
    });

    await t.step("what a call would change is shown before it is allowed", async () => {
      const dir = `${folder}/files`;
      await Deno.mkdir(dir);
      await Deno.writeTextFile(`${dir}/a.txt`, `one\ntwo ${ESCAPES}\n`);
      const writing = {
        ...config,
        workspace: { dir },
        agents: { default: { approvals: { ask: ["file.*"] } } },
      };
      await Deno.writeTextFile(`${folder}/writing.json`, JSON.stringify(writing));
      const edit = { path: "a.txt", oldText: "one", newText: "1", all: null, hash: null };
      upstream.script((request) =>
        request.messages.at(-1)?.role === "user"
          ? chatStream({ toolCalls: [{ name: "file_edit", arguments: edit }] })
          : chatStream({ text: "Done" })
      );
      const done = await chat(["Go", "yes"], "--config", `${folder}/writing.json`);
      assert.equal(done.code, 0, done.err);
      const lines = ["--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1,2 @@", "-one", "+1"];
      const asked = `file.edit wants to run (risk medium): \n  | ${lines.join("\n  | ")}`;
      assert.ok(done.err.includes(`${asked}\n  |  two ${ESCAPED}\n`), done.err);
      assert.equal(await Deno.readTextFile(`${dir}/a.txt`), `1\ntwo ${ESCAPES}\n`);
    });

    await t.step("of exit codes the first that is not 0 counts", async () => {
      upstream.script(chatStream({ text: "Fine" }));
      assert.equal((await chat(["/nothing", "Hello"])).code, 2);
      assert.equal((await chat(["Hello"], "--agent", "nobody")).code, 1);
      assert.equal((await chat(["Hello"], "--session", `ses_${"0".repeat(32)}`)).code, 1);
      assert.equal((await chat(["Hello"], "--model", "nothing/here")).code, 1);
      assert.equal((await chat(["Hello"], "--nothing")).code, 2);
      assert.equal((await chat(["Hello"], "--url", "http://127.0.0.1:9")).code, 2);
      upstream.script(calculate("1"));
      const ended = await chat(["Go", "Hello"], "--agent", "short");
      assert.equal(ended.code, 4, ended.err);
    });

    await t.step("Ctrl-C stops the run, and ends a script", async () => {
      upstream.script(chatStream({ text: "Well", endAfter: 2, end: "stall" }));
      const before = upstream.requests.length;
      const running = await startCommand(folder, ["chat"], {}, "Go\nAgain\n");
      await upstream.until(() => upstream.requests.length > before);
      await eventually(() => running.out() === "" ? null : true);
      assert.equal(await running.end("SIGINT"), 130, running.err());
      assert.match(running.err(), /^aborted: /m);
      assert.equal(upstream.requests.length, before + 1);
    });

    await t.step({
      name: "on a terminal: what is asked is typed, Ctrl-C stops the run first, Ctrl-D leaves",
      ignore: !hasScript(),
      async fn() {
        upstream.script((request) =>
          request.messages.at(-1)?.content === "Go"
            ? chatStream({ text: "Slow", endAfter: 2, end: "stall" })
            : chatStream({ text: `Quick ${ESCAPES}` })
        );
        const shown = await typed(folder, [
          [/lists commands[\s\S]*> /, "Go\r"],
          [/Slow/, "\x03"],
          [/aborted:[\s\S]*> /, "Hello\r"],
          [/Quick[\s\S]*> /, "half a line\x03"],
          [/half a line[\s\S]*> /, "\x04"],
        ]);
        assert.equal(shown.code, 0, shown.text);
        assert.ok(shown.text.includes(`Quick ${ESCAPED}`), shown.text);
        assert.ok(!shown.text.includes("\x1b]0;"), shown.text);
      },
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("loophub chat asks what MCP servers ask back, a form field by field", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-chat-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const server = startAsking("legacy");
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "up/first",
    agents: { default: { tools: ["*__*"] } },
    mcpServers: { peer: { url: server.url, timeoutMs: 60_000 } },
  };
  upstream.script((request) =>
    request.messages.at(-1)?.role === "user"
      ? chatStream({ toolCalls: [{ name: "peer__paint", arguments: {} }] })
      : chatStream({ text: String(request.messages.at(-1)?.content) })
  );
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    const lines = [
      ...["/skills", "Paint", "what?", "accept", "red", ""],
      ...["/new", "Paint", "accept", "blue", "big", "decline"],
      ...["/new", "Paint"],
    ];
    const done = await command(folder, ["chat"], {}, lines.map((line) => `${line}\n`).join(""));
    assert.equal(done.code, 0, done.err);
    assert.match(done.err, /^The agent default has no skills$/m);
    assert.match(done.err, /^peer asks: Which.* colour\?$/m);
    assert.match(done.err, /^Please answer: accept \/ decline \/ cancel$/m);
    if (hasScript()) {
      upstream.script((request) =>
        request.messages.at(-1)?.role === "user"
          ? chatStream({ toolCalls: [{ name: "peer__login", arguments: {} }] })
          : chatStream({ text: String(request.messages.at(-1)?.content) })
      );
      const { code, text } = await typed(folder, [
        [/lists commands[\s\S]*> /, "Log in\r"],
        [/cancel > /, "accept\r"],
        [/mail[^>]*> /, "me@peer.example\r"],
        [/password[^>]*> /, "hunter2\r"],
        [/length[^]*> /, "\x1b[A"],
        [/me@peer/, "\x03"],
        [/> /, "\x04"],
      ]);
      assert.equal(code, 0, text);
      assert.match(text, /"length":7/);
      assert.ok(!text.includes("hunter2"), text);
    }
    const [painted, declined, left] = done.out.trim().split("\n");
    assert.match(painted ?? "", /"colour":"red","size":7/);
    assert.match(done.err, /answered 400: .*size/);
    assert.match(declined ?? "", /decline/);
    assert.match(left ?? "", /cancel/);
  } finally {
    await upstream.stop();
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("loophub chat --url: the same with a running hub, whose stream is resumed where it broke off", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-chat-" });
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "up/first",
    agents,
  };
  const gate = Promise.withResolvers<void>();
  upstream.script(async (_, index) => {
    if (index === 0) {
      const call = { name: "hub_wait", arguments: { seconds: 0 } };
      return chatStream({ text: "First", toolCalls: [call] });
    }
    await gate.promise;
    return chatStream({ text: "Last" });
  });
  try {
    await withHub(config, async (hub) => {
      const proxy = await startTcpProxy(hub.url);
      try {
        const args = ["chat", "--url", proxy.through(hub.url)];
        const running = await startCommand(folder, args, { LOOPHUB_KEY: hub.key }, "Go\n/tools\n");
        await upstream.until(() => upstream.requests.length > 1);
        await eventually(() => /=> Waited/.test(running.err()) ? true : null);
        await proxy.set("slam");
        proxy.cut();
        await eventually(() => /is away; trying again/.test(running.err()) ? true : null);
        await proxy.set("pass");
        gate.resolve();
        assert.equal(await running.ended(), 0, running.err());
        assert.equal(running.out(), "First\nLast\n");
        assert.match(running.err(), /^hub\.calculate \(low risk, asks\) {2}Evaluates/m);

        const wrong = await command(folder, args, { LOOPHUB_KEY: "lh_wrong" }, "Go\n");
        assert.equal(wrong.code, 1);
        assert.match(wrong.err, /answered 401: Incorrect API key/);
        assert.equal((await command(folder, args, {}, "Go\n")).code, 2);
      } finally {
        gate.resolve();
        await proxy.stop();
      }
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
