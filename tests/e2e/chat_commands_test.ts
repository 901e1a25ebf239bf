import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { command } from "../support/hub_process.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";
import { hasScript, typed } from "../support/typed_chat.ts";

const LONG = "It explains at great length what nobody has asked about and goes on and on behind " +
  "the width of any terminal that people sit before";

Deno.test("the commands of loophub chat, with a running hub", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-chat-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const skill = async (name: string, text: string) => {
    await Deno.mkdir(`${folder}/skills/${name}`, { recursive: true });
    await Deno.writeTextFile(`${folder}/skills/${name}/SKILL.md`, text);
  };
  await skill("letter", `---\nname: letter\ndescription: How to write. ${LONG}.\n---\nSo.\n`);
  await skill("long", `---\nname: long\ndescription: ${LONG}\n---\nSo.\n`);
  await skill("wrong", "no front matter");
  const config: JsonObject = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "up/first",
    skills: { dir: `${folder}/skills` },
    agents: {
      default: { approvals: { ask: ["hub.calculate"] } },
      other: { systemPrompt: "I am other", skills: [] },
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  const calculates = (expression = "6*7") => {
    const call = { name: "hub_calculate", arguments: { expression } };
    upstream.script((request) =>
      request.messages.at(-1)?.role === "user"
        ? chatStream({ toolCalls: [call] })
        : chatStream({ text: "It is 42" })
    );
  };
  const saidBy = (request = upstream.requests.at(-1)) =>
    request?.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  try {
    await withHub(config, async (hub) => {
      const env = { LOOPHUB_KEY: hub.key };
      const args = ["--url", hub.url];
      const chat = async (lines: string[], ...more: string[]) => {
        const input = lines.map((line) => `${line}\n`).join("");
        const done = await command(folder, ["chat", ...args, ...more], env, input);
        return { ...done, session: /session (ses_\S+)\s*$/.exec(done.err)?.[1] ?? "" };
      };
      const grantsOf = async () =>
        (await (await hub.call("/v1/approvals/grants")).json()).data as JsonObject[];

      await t.step("/sessions, /resume by number, and /resume of the latest", async () => {
        upstream.script(chatStream({ text: "Fine" }));
        const one = await chat(["Hello one"]);
        const two = await chat(["Hello two"]);
        const lines = ["/sessions", "/resume 2", "More", "/resume", "Even more", "/resume 9"];
        const done = await chat(lines);
        assert.equal(done.code, 0, done.err);
        const listed = done.err.split("\n").slice(0, 2);
        assert.match(listed[0] ?? "", new RegExp(`^  1  ${two.session}  .* default  2 messages`));
        assert.match(listed[1] ?? "", new RegExp(`^  2  ${one.session}  .* default  2 messages`));
        assert.match(done.err, /^user: Hello one\nassistant: Fine$/m);
        assert.match(done.err, /^user: Hello two\nassistant: Fine$/m);
        assert.match(done.err, /^There is no such session; see \/sessions$/m);
        assert.deepEqual(upstream.requests.slice(-2).map(saidBy), [
          ["Hello one", "More"],
          ["Hello two", "Even more"],
        ]);
        assert.equal(done.session, two.session);
      });

      await t.step(
        "/agents NAME answers from now on; /skills and /tools tell a sentence each",
        async () => {
          upstream.script(chatStream({ text: "Fine" }));
          const done = await chat([
            "/skills",
            "/tools",
            "/agents other",
            "Who?",
            "/agents",
            "/skills",
          ]);
          assert.equal(done.code, 0, done.err);
          assert.match(done.err, /^other answers from now on$/m);
          assert.match(upstream.requests.at(-1)?.messages[0]?.content ?? "", /^I am other/);
          assert.match(done.err, /^\* other {2}up\/first/m);
          assert.match(done.err, /^The agent other has no skills$/m);
          assert.match(done.err, /^letter \(managed\) {2}How to write\.$/m);
          const cut = /^long \(managed\) {2}(.*)…$/m.exec(done.err)?.[1] ?? "";
          assert.ok(cut.length > 60 && LONG.startsWith(`${cut} `), "it is cut between words");
          assert.match(done.err, /^! .*wrong.*: /m);
          const tools = done.err.split("\n").filter((line) => /^\S+ \(\w+ risk/.test(line));
          assert.ok(tools.length > 3);
          for (const line of tools) {
            const [, told = ""] = /\) {2}(.*)$/.exec(line) ?? [];
            assert.ok(told.length > 3 && told.length <= 100, line);
            assert.match(told, /[^,;:\s]$/, "no sentence breaks off without a sign");
          }
          const nobody = await chat(["/agents nobody"]);
          assert.equal(nobody.code, 1);
          assert.match(nobody.err, /nobody/);
        },
      );

      await t.step("once is for one call, always for those that come", async () => {
        calculates();
        const done = await chat(["Go", "once", "Again", "always", "And again", "/new", "Anew"]);
        assert.equal(done.code, 0, done.err);
        const asked = done.err.match(/wants to run/g) ?? [];
        assert.equal(asked.length, 2, done.err);
        assert.equal(done.out, "It is 42\n".repeat(4));
        const [grant, ...more] = await grantsOf();
        assert.deepEqual([grant?.["toolName"], grant?.["sessionId"], more], [
          "hub.calculate",
          null,
          [],
        ]);
        await hub.call(`/v1/approvals/grants/${grant?.["id"]}`, { method: "DELETE" });
      });

      await t.step("/approve asks what a run waits for that somebody else began", async () => {
        calculates();
        const { id } = await (await hub.call("/v1/sessions", { body: {} })).json();
        const answer = await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Go" } });
        const runId = answer.headers.get("x-loophub-run") ?? "";
        const stream = answer.text();
        await eventually(async () => {
          const { status } = await (await hub.call(`/v1/runs/${runId}`)).json();
          return status === "waiting" ? true : null;
        });
        const nothing = await chat(["/approve"]);
        assert.match(nothing.err, /^Nothing waits for you$/m);
        const done = await chat([`/resume ${id}`, "perhaps", "/approve", "/approve"]);
        assert.equal(done.code, 0, done.err);
        assert.match(done.err, /wants to run/);
        assert.equal(done.out, "It is 42\n");
        assert.match(done.err, /^Nothing waits for you$/m);
        assert.match(await stream, /"approved":true/);
      });

      await t.step({
        name:
          "on a terminal: a call is let run, a run is steered while it goes on, and /stop stops one",
        ignore: !hasScript(),
        async fn() {
          const gate = Promise.withResolvers<void>();
          upstream.script(async (request) => {
            const last = request.messages.at(-1);
            if (last?.content === "Stall") {
              return chatStream({ text: "Slow", endAfter: 2, end: "stall" });
            }
            if (last?.content === "Work") {
              return chatStream({
                text: "Working",
                toolCalls: [{ name: "hub_calculate", arguments: { expression: "6*7" } }],
              });
            }
            if (last?.role === "tool") {
              await gate.promise;
              return chatStream({
                text: "Half done",
                toolCalls: [{ name: "hub_wait", arguments: { seconds: 0 } }],
              });
            }
            return chatStream({ text: `Heard ${last?.content}` });
          });
          const waits = async () => {
            const rows = await hub.hub.start.db.read`select text from hub.steering`;
            return rows.some(({ text }) => text === "Mind the gap");
          };
          const asked = upstream.requests.length;
          const { code, text } = await typed(folder, [
            [/lists commands[\s\S]*> /, "Work\r"],
            [/wants to run[\s\S]*no \[why\] > /, "perhaps\r"],
            [/Please answer[\s\S]*no \[why\] > /, "always\r"],
            [/"result":42/, async () => {
              await upstream.until(() => upstream.requests.length >= asked + 2);
              return "Mind the gap\r";
            }],
            [/Mind the gap/, async () => {
              await eventually(async () => await waits() ? true : null);
              gate.resolve();
              return "";
            }],
            [/Heard Mind the gap[\s\S]*> /, "Stall\r"],
            [/Slow/, "/stop\r"],
            [/aborted:[\s\S]*> /, "/quit\r"],
          ], { args, env });
          assert.equal(code, 0, text);
          assert.equal((await grantsOf()).length, 1);
        },
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
