import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

const skillText = (name: string, rest = "") =>
  `---\nname: ${name}\ndescription: How to ${name}\n${rest}---\nDo ${name} so.\n`;

interface ChatBody {
  messages: { role: string; content: string }[];
  tools?: { function: { name: string } }[];
}

Deno.test("skills of the operator and of the workspace are told, loaded and followed by changes", async (t) => {
  const upstream = await startScriptedUpstream();
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-skills-" }));
  const write = async (path: string, text: string) => {
    const whole = `${base}/${path}`;
    await Deno.mkdir(whole.slice(0, whole.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(whole, text);
  };
  await write("skills/release/SKILL.md", skillText("release", "tools: [hub.wait, shell.run]\n"));
  await write("ws/.loophub/skills/house/SKILL.md", skillText("house"));
  const config: JsonObject = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    skills: { dir: `${base}/skills` },
    agents: {
      default: { workspace: { dir: `${base}/ws` } },
      plain: { skills: [] },
      some: { skills: ["*", "!release"] },
      managed: {},
      few: { skills: ["letter"] },
      most: { skills: ["*", "!letter"] },
    },
  };
  try {
    await withHub(config, async (hub) => {
      const say = async (agent: string, ...calls: [string, JsonObject][]): Promise<ChatBody> => {
        const { id } = await (await hub.call("/v1/sessions", { body: { agent } })).json();
        upstream.script([
          ...calls.map(([name, input]) => chatStream({ toolCalls: [{ name, arguments: input }] })),
          chatStream({ text: "Done" }),
        ]);
        await (await hub.call(`/v1/sessions/${id}/messages`, { body: { text: "Go" } })).text();
        return upstream.requests.at(-1)?.json as unknown as ChatBody;
      };
      const list = async (agent: string) =>
        await (await hub.call(`/v1/skills?agent=${agent}`)).json();
      const namesOf = ({ data }: { data: { name: string }[] }) => data.map(({ name }) => name);

      await t.step("the prompt names them, and the model loads one", async () => {
        const { messages, tools } = await say("default", ["skills_load", { name: "release" }]);
        const [system] = messages;
        assert.match(system?.content ?? "", /- house \(workspace\)$/m);
        assert.doesNotMatch(system?.content ?? "", /How to house/);
        assert.match(system?.content ?? "", /- release: How to release/);
        assert.ok(tools?.some((tool) => tool.function.name === "skills_read"));
        assert.match(messages.at(-1)?.content ?? "", /not here: shell\.run[^]*Do release so\./);
      });

      await t.step("an agent has the skills that its patterns choose", async () => {
        assert.deepEqual(namesOf(await list("managed")), ["release"]);
        assert.deepEqual(namesOf(await list("default")), ["house", "release"]);
        assert.deepEqual(namesOf(await list("plain")), []);
        assert.deepEqual(namesOf(await list("some")), []);
        for (const agent of ["plain", "some"]) {
          const { messages, tools } = await say(agent);
          assert.ok(!tools?.some((tool) => tool.function.name.startsWith("skills_")), agent);
          assert.doesNotMatch(messages[0]?.content ?? "", /release/);
        }
      });

      await t.step("what is written counts soon, and what is wrong is told", async () => {
        await write("skills/letter/SKILL.md", skillText("letter"));
        await write("skills/wrong/SKILL.md", "No head");
        const listed = await eventually(async () => {
          const now = await list("managed");
          return now.invalid.length > 0 ? now : null;
        });
        assert.deepEqual(namesOf(listed), ["letter", "release"]);
        assert.deepEqual(listed.skills[1].missingTools, ["shell.run"]);
        assert.match(listed.invalid[0].problem, /does not begin with YAML/);
        assert.equal(listed.invalid[0].path, `${base}/skills/wrong`);
        const { messages } = await say("managed");
        assert.match(messages[0]?.content ?? "", /- letter: How to letter/);
      });

      await t.step("an edit counts soon, in prompt and text; what is removed is gone", async () => {
        const promptOf = async (agent: string) => (await say(agent)).messages[0]?.content ?? "";
        const until = async (agent: string, isThere: (names: string[]) => boolean) =>
          await eventually(async () => isThere(namesOf(await list(agent))) || null);
        const head = "name: letter\ndescription: How to write\ntriggers: [post, a stamp]\n";
        await write("skills/letter/SKILL.md", `---\n${head}---\nSeal it now.\n`);
        await eventually(async () => {
          const { skills } = await list("managed");
          return skills[0].description === "How to write" || null;
        });
        const { messages } = await say("managed", ["skills_load", { name: "letter" }]);
        const told = messages[0]?.content ?? "";
        assert.match(told, /^- letter: How to write When: post; a stamp$/m);
        assert.match(messages.at(-1)?.content ?? "", /Seal it now\./);

        // The workspace's own wins, and its words are not in the prompt.
        await write("ws/.loophub/skills/letter/SKILL.md", skillText("letter"));
        await eventually(async () => {
          const { skills } = await list("default");
          const letter = skills.find(({ name }: { name: string }) => name === "letter");
          return letter?.tier === "workspace" || null;
        });
        assert.match(await promptOf("default"), /^- letter \(workspace\)$/m);
        assert.match(await promptOf("managed"), /^- letter: How to write/m);
        const loaded = await say("default", ["skills_load", { name: "letter" }]);
        assert.match(loaded.messages.at(-1)?.content ?? "", /Do letter so\./);
        await write(
          "ws/.loophub/skills/letter/SKILL.md",
          skillText("letter").replace("so.", "otherwise."),
        );
        await eventually(async () => {
          const { messages } = await say("default", ["skills_load", { name: "letter" }]);
          return messages.at(-1)?.content.includes("Do letter otherwise.") || null;
        });

        await Deno.remove(`${base}/ws/.loophub/skills/letter`, { recursive: true });
        await eventually(async () => {
          const prompt = await promptOf("default");
          return /^- letter: How to write/m.test(prompt) || null;
        });
        await Deno.remove(`${base}/skills/letter`, { recursive: true });
        await until("managed", (names) => !names.includes("letter"));
        assert.doesNotMatch(await promptOf("managed"), /letter/);
        const gone = await say("managed", ["skills_load", { name: "letter" }]);
        assert.match(gone.messages.at(-1)?.content ?? "", /no skill/i);
        await Deno.remove(`${base}/ws/.loophub/skills/house`, { recursive: true });
        await until("default", (names) => !names.includes("house"));
        assert.doesNotMatch(await promptOf("default"), /house/);
        await write("skills/letter/SKILL.md", skillText("letter"));
        await until("managed", (names) => names.includes("letter"));
      });

      await t.step("only whoever may run an agent is told of its skills", async () => {
        assert.equal((await hub.call("/v1/skills?agent=none")).status, 404);
        const policy = { agents: ["plain", "few", "most"] };
        const made = await hub.call("/v1/admin/keys", { body: { name: "few", policy } });
        const headers = { authorization: `Bearer ${(await made.json()).token}` };
        assert.equal((await hub.call("/v1/skills?agent=plain", { headers })).status, 200);
        const shown = await hub.call("/v1/skills?agent=few", { headers });
        assert.deepEqual((await shown.json()).invalid, []);
        const whole = await (await hub.call("/v1/skills?agent=most", { headers })).text();
        assert.ok(whole.includes('"path":"wrong"') && !whole.includes(base), whole);
        assert.equal((await hub.call("/v1/skills?agent=managed", { headers })).status, 403);
        assert.equal((await hub.call("/v1/skills", { headers })).status, 403);
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(base, { recursive: true });
  }
});
