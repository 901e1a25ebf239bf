import assert from "node:assert/strict";
import { command } from "../support/hub_process.ts";

Deno.test("check tells the operator's skills, and those that cannot be used", async () => {
  const folder = await Deno.makeTempDir({ prefix: "loophub-check-" });
  try {
    await Deno.mkdir(`${folder}/skills/good`, { recursive: true });
    await Deno.mkdir(`${folder}/skills/empty`);
    await Deno.writeTextFile(
      `${folder}/skills/good/SKILL.md`,
      "---\nname: good\ndescription: How to be good\n---\nDo good.\n",
    );
    const check = async (skills: string) => {
      const config = {
        providers: { demo: { kind: "demo" } },
        skills: { dir: skills },
        agents: { clerk: { skills: ["go*", "god"] } },
      };
      await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
      return await command(folder, ["check"]);
    };
    const found = await check("skills");
    assert.equal(found.code, 0, found.err);
    assert.match(found.out, /^skills +.*\/skills: good$/m);
    assert.match(
      found.out,
      /^fits nothing +agents\.clerk\.skills: god fits no skill, did you mean/m,
    );
    assert.doesNotMatch(found.out, /agents\.default\.skills/);
    assert.match(found.out, /^skills +.*\/skills\/empty is none: it has no SKILL\.md/m);
    assert.match((await check("elsewhere")).out, /^skills +.*\/elsewhere is not there/m);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("check imports the modules of operations, and says what agents ask, have and misspell", async (t) => {
  const folder = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-check-" }));
  const operation = new URL("../../src/operations/operation.ts", import.meta.url).href;
  const moduleOf = (begin: string) =>
    `${begin}\nimport { defineOperation, Type } from "${operation}";\n` +
    `export default defineOperation({ namespace: "my", name: "op", description: "Does it", ` +
    `input: Type.Object({}), approval: "always", run: () => 1 });\n`;
  const check = async (config: Record<string, unknown>, module = "") => {
    await Deno.writeTextFile(`${folder}/ops.ts`, moduleOf(module));
    await Deno.writeTextFile(
      `${folder}/loophub.json`,
      JSON.stringify({
        providers: { demo: { kind: "demo" } },
        operations: { modules: ["ops.ts"] },
        ...config,
      }),
    );
    return await command(folder, ["check"]);
  };
  const rowsOf = (out: string, name: string) =>
    out.split("\n").filter((line) => line.startsWith(`${name}  `)).map((line) =>
      line.slice(name.length).trim()
    );
  try {
    await Deno.mkdir(`${folder}/ws`);
    await t.step("a module that is wrong ends it, before any start", async () => {
      const broken = await check({}, "throw new Error('not today');");
      assert.equal(broken.code, 3);
      assert.match(broken.err, /ops\.ts: the import failed: not today/);
    });

    await t.step("a module that wants more than a check may is named, and left", async () => {
      for (
        const wants of ["await fetch('https://example.com');", "Deno.writeTextFileSync('x', '');"]
      ) {
        const held = await check({}, wants);
        assert.equal(held.code, 0, held.err);
        assert.match(held.out, /^operation +\S+\/ops\.ts wants more than a check may do/m);
      }
      assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), [
        "loophub.json",
        "ops.ts",
        "ws",
      ]);
    });

    await t.step("what asks, what is open, what fits nothing, and the servers", async () => {
      const { code, out, err } = await check({
        workspace: { dir: "ws", sandbox: "off" },
        mcpServers: {
          files: { command: "no-such-program", args: ["canary-1"], env: { KEY: "canary-2" } },
          far: {
            url: "https://user:canary-3@mcp.example/canary-4?key=canary-5",
            effect: { "get_*": "pure" },
            autoApprove: ["x"],
          },
        },
        agents: {
          clerk: {
            tools: ["file.wirte", "files__*", "!shel.*", "my.op"],
            agents: ["def*", "sub_*"],
            approvals: {
              ask: ["fil.edit"],
              rules: [{ tools: ["my.op", "agents.default"], tier: "auto" }],
              tainted: "allow",
            },
          },
          reader: { tools: ["file.read", "file.write"], workspace: { dir: "ws", approval: "ask" } },
          talker: { tools: [] },
        },
      });
      assert.equal(code, 0, err);
      assert.deepEqual(rowsOf(out, "operation"), ["my.op: effect, risk medium"]);
      const read = "every call with effects once it has read what others wrote";
      const asks = rowsOf(out, "asks");
      assert.deepEqual(asks, [
        "no tool of clerk needs approval",
        `reader: file.write unless approved for longer; ${read}`,
        "no tool of talker needs approval",
        `default: file.delete, file.edit, file.move, file.write once a session; my.op each time; ${read}`,
      ]);
      const [open = "", ...others] = rowsOf(out, "open");
      assert.match(
        open,
        /^default may use every tool \(file\.delete, .*; every tool of the MCP servers .*\); agents\.default\.tools can list fewer$/,
      );
      assert.deepEqual(others, []);
      assert.deepEqual(rowsOf(out, "fits nothing"), [
        'agents.clerk.tools: file.wirte fits no tool, did you mean "file.write"',
        "agents.clerk.tools: !shel.* fits no tool",
        'agents.clerk.approvals.ask: fil.edit fits no tool, did you mean "file.edit"',
        "agents.clerk.agents: sub_* fits no agent",
      ]);
      assert.deepEqual(rowsOf(out, "mcp server"), [
        "files: program no-such-program, which is not found here; tools files__*; its definitions are pinned",
        "far: http https://mcp.example; tools far__*; its definitions are pinned; get_* pure",
      ]);
      assert.match(
        rowsOf(out, "asks much")[0] ?? "",
        /^mcpServers\.files: each call by default asks/,
      );
      assert.match(rowsOf(out, "note").join(), /mcpServers\.far: `autoApprove` lets tools run/);
      assert.doesNotMatch(out, /canary/);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
