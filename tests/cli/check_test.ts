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
      const config = { providers: { demo: { kind: "demo" } }, skills: { dir: skills } };
      await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
      return await command(folder, ["check"]);
    };
    const found = await check("skills");
    assert.equal(found.code, 0, found.err);
    assert.match(found.out, /^skills +.*\/skills: good$/m);
    assert.match(found.out, /^skills +.*\/skills\/empty is none: it has no SKILL\.md/m);
    assert.match((await check("elsewhere")).out, /^skills +.*\/elsewhere is not there/m);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
