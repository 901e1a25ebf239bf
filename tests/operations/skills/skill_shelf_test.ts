import assert from "node:assert/strict";
import { callTool } from "../../../src/operations/call.ts";
import { WorkspaceFiles } from "../../../src/operations/files/workspace_files.ts";
import { createSkillFolder, MAX_FOUND } from "../../../src/operations/skills/skill_folder.ts";
import {
  createSkillOperations,
  describeSkills,
} from "../../../src/operations/skills/skill_operations.ts";
import { lookAtSkills } from "../../../src/operations/skills/look_at_skills.ts";
import { MAX_SKILLS, readFound, SkillShelf } from "../../../src/operations/skills/skill_shelf.ts";
import { readSkill } from "../../../src/operations/skills/read_skill.ts";
import { toTool } from "../../../src/operations/to_tool.ts";
import { createFakeClock } from "../../support/fake_clock.ts";
import { systemClock } from "../../support/system_clock.ts";
import { CANARY, PATH } from "../files/rig.ts";
import { createToolContext } from "../tool_context.ts";

const skillText = (name: string, rest = "") =>
  `---\nname: ${name}\ndescription: How to ${name}\n${rest}---\nDo ${name} so.\n`;

interface ShelfRig {
  /** Writes a file below the folder of managed skills, or of the workspace. */
  write(path: string, text: string): Promise<void>;
  managed: string;
  ws: string;
  outside: string;
  shelf: SkillShelf;
  /** Lets what is known grow stale. */
  wait(): Promise<void>;
  call(name: string, input: Record<string, string>): Promise<string>;
  logged: string[];
}

/** A managed folder and a workspace, each with skills, and a folder beside them that is nobody's. */
async function withShelf(body: (rig: ShelfRig) => Promise<void>): Promise<void> {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-skills-" }));
  const [managed, ws, outside] = [`${base}/managed`, `${base}/ws`, `${base}/outside`];
  for (const dir of [managed, ws, outside]) await Deno.mkdir(dir);
  await Deno.writeTextFile(`${outside}/canary`, CANARY);
  const folder = (dir: string, path: string) => {
    const place = {
      dir,
      isLimited: true,
      isChecked: true,
      maxFileBytes: 1024 * 1024,
      within: [],
      path: PATH,
      nonce: () => crypto.getRandomValues(new Uint8Array(16)).toHex(),
      clock: systemClock,
    };
    return createSkillFolder(place, { files: new WorkspaceFiles(place), path });
  };
  const clock = createFakeClock();
  const { context, logged } = createToolContext(systemClock);
  const shelf = new SkillShelf([
    { tier: "managed", home: folder(managed, ".") },
    { tier: "workspace", home: folder(ws, ".loophub/skills") },
  ], { clock, log: context.log });
  const tools = createSkillOperations({
    skills: async () => (await shelf.read()).skills,
    toolNames: () => ["file.read", "hub.wait"],
  }).map((operation) => toTool(operation));
  try {
    await body({
      managed,
      ws,
      outside,
      shelf,
      logged,
      wait: async () => await clock.advance(3000),
      async write(path, text) {
        const whole = `${base}/${path}`;
        await Deno.mkdir(whole.slice(0, whole.lastIndexOf("/")), { recursive: true });
        await Deno.writeTextFile(whole, text);
      },
      async call(name, input) {
        const tool = tools.find((one) => one.name === name) ?? assert.fail(name);
        const checked = tool.validate(input);
        assert.ok(checked.ok);
        const outcome = await callTool(tool, checked.input, { context });
        return outcome.ok ? String(outcome.output) : `failed: ${outcome.errorText}`;
      },
    });
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

const OWN = "ws/.loophub/skills";

Deno.test("skills of both tiers are found, and the workspace's wins over one of the same name", async () => {
  await withShelf(async ({ shelf, write, call, wait }) => {
    assert.deepEqual(await shelf.read(), { skills: [], bad: [] });
    await write("managed/release/SKILL.md", skillText("release"));
    await write("managed/letter/SKILL.md", skillText("letter", "tools: [file.*, shell.run]\n"));
    await write("managed/letter/forms/short.md", "Dear …\nYours");
    await write(`${OWN}/mine/SKILL.md`, skillText("release", "version: 2\n"));
    assert.deepEqual((await shelf.read()).skills, [], "what is known is fresh for two seconds");
    await wait();
    const { skills, bad } = await shelf.read();
    assert.deepEqual(bad, []);
    assert.deepEqual(skills.map(({ name, tier }) => [name, tier]), [
      ["letter", "managed"],
      ["release", "workspace"],
    ]);
    const prompt = describeSkills(skills);
    assert.match(prompt, /^- letter: How to letter$/m);
    assert.match(prompt, /^- release \(workspace\)$/m);
    assert.match(prompt, /told by skills\.list\..*not the operator's words/);
    assert.match(await call("skills.list", {}), /^- release \(workspace\): How to release$/m);
    const letter = await call("skills.load", { name: "letter" });
    assert.match(letter, /needs tools that are not here: shell\.run/);
    assert.match(letter, /Files, .*: SKILL\.md, forms\/short\.md/);
    assert.match(letter, /Do letter so\.$/);
    assert.match(await call("skills.load", { name: "release" }), /release 2, written in the work/);
    assert.match(
      await call("skills.read", { name: "letter", path: "forms/short.md" }),
      /^1: Dear …\n2: Yours\n/,
    );
    assert.match(await call("skills.load", { name: "none" }), /no skill "none".*letter, release/);
  });
});

Deno.test("folders that are no skills are told with the reason, once as long as nothing changes", async () => {
  await withShelf(async ({ shelf, write, wait, logged }) => {
    await write("managed/empty/README.md", "Nothing");
    await write("managed/broken/SKILL.md", "---\nname: [\n---\n");
    await write(`${OWN}/one/SKILL.md`, skillText("twin"));
    await write(`${OWN}/two/SKILL.md`, skillText("twin"));
    const { skills, bad } = await shelf.read();
    assert.deepEqual(skills.map(({ name, folder }) => [name, folder]), [["twin", "one"]]);
    assert.deepEqual(bad.map(({ tier, path }) => [tier, path.split("/").at(-1)]), [
      ["managed", "broken"],
      ["managed", "empty"],
      ["workspace", "two"],
    ]);
    assert.match(bad[0]?.problem ?? "", /no valid YAML/);
    assert.match(bad[1]?.problem ?? "", /no SKILL\.md/);
    assert.match(bad[2]?.problem ?? "", /another one beside it is named twin/);
    await wait();
    await shelf.read();
    assert.equal(logged.filter((line) => line.startsWith("warn")).length, 3);
    await write("managed/broken/SKILL.md", skillText("whole"));
    await wait();
    assert.equal((await shelf.read()).skills.length, 2);
  });
});

Deno.test("nothing outside of the skills' folders is read, whatever links and paths say", async () => {
  await withShelf(async ({ shelf, managed, ws, outside, write, call }) => {
    await write("managed/good/SKILL.md", skillText("good"));
    await Deno.symlink(outside, `${managed}/linked`);
    await Deno.symlink(`${outside}/canary`, `${managed}/good/canary`);
    await Deno.symlink(outside, `${managed}/good/there`);
    await Deno.mkdir(`${managed}/stolen`);
    await Deno.writeTextFile(`${outside}/SKILL.md`, skillText("stolen"));
    await Deno.symlink(`${outside}/SKILL.md`, `${managed}/stolen/SKILL.md`);
    await Deno.mkdir(`${ws}/.loophub`);
    await Deno.symlink(outside, `${ws}/.loophub/skills`);
    const { skills } = await shelf.read();
    assert.deepEqual(skills.map(({ name }) => name), ["good"]);
    for (
      const path of [
        "../../outside/canary",
        "../good/../../outside/canary",
        `${outside}/canary`,
        "canary",
        "there/canary",
        "./../../outside/canary",
        "a/../../../outside/canary",
      ]
    ) {
      const said = await call("skills.read", { name: "good", path });
      assert.match(said, /^failed: /, path);
      assert.ok(!said.includes(CANARY), path);
    }
    assert.ok(!(await call("skills.load", { name: "good" })).includes("canary"));
  });
});

Deno.test("the operator's folder is looked at without a program too, and no link is followed", async () => {
  await withShelf(async ({ managed, outside, write }) => {
    await write("managed/good/SKILL.md", skillText("good"));
    await write("managed/huge/SKILL.md", "x".repeat(70_000));
    await Deno.symlink(outside, `${managed}/linked`);
    await Deno.mkdir(`${managed}/stolen`);
    await Deno.symlink(`${outside}/canary`, `${managed}/stolen/SKILL.md`);
    const found = await lookAtSkills(managed);
    const { skills, bad } = await readFound(found, { tier: "managed", shown: managed });
    assert.deepEqual(skills.map(({ name }) => name), ["good"]);
    assert.deepEqual(bad.map(({ problem }) => /more than|no SKILL/.exec(problem)?.[0]), [
      "more than",
      "no SKILL",
    ]);
    await assert.rejects(lookAtSkills(`${managed}/none`));
  });
});

Deno.test("others have their turn between two skills, and what there was no time for says so", async () => {
  const bytesOf = (name: string) => new TextEncoder().encode(skillText(name));
  const found = ["a", "b", "c"].map((folder) => ({ folder, bytes: bytesOf(folder) }));
  const stop = new AbortController();
  const { skills, bad } = await readFound(found, {
    tier: "workspace",
    shown: "skills",
    signal: stop.signal,
    read(_, bytes) {
      setImmediate(() => stop.abort());
      return readSkill(bytes);
    },
  });
  assert.deepEqual(skills.map(({ name }) => name), ["a"]);
  assert.deepEqual(bad.map(({ folder, problem }) => [folder, problem]), [
    ["b", "there was no time left to read it"],
    ["c", "there was no time left to read it"],
  ]);
});

Deno.test("however many there are, few are read and fewer told", async () => {
  await withShelf(async ({ shelf, write, call }) => {
    for (let index = 0; index < MAX_FOUND + 5; index++) {
      const name = `skill-${String(index).padStart(3, "0")}`;
      await write(
        `managed/${name}/SKILL.md`,
        skillText(name, `triggers: ["${"x".repeat(190)}"]\n`),
      );
    }
    const { skills, bad } = await shelf.read();
    assert.equal(skills.length, MAX_SKILLS);
    assert.equal(bad.length, MAX_FOUND - MAX_SKILLS + 1);
    const prompt = describeSkills(skills);
    assert.ok(prompt.length < 8500, String(prompt.length));
    assert.match(prompt, /and \d+ more: skills\.list tells them$/);
    assert.equal((await call("skills.list", {})).split("\n").length, MAX_SKILLS);
  });
});
