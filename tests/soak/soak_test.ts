import assert from "node:assert/strict";
import { KINDS } from "./soak.ts";

const root = new URL("../../", import.meta.url).pathname;

async function soaked(...options: string[]): Promise<string> {
  const { tasks } = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  const flags = tasks.soak.command.split(" ").filter((word: string) => word.startsWith("--"));
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...flags, `${root}tests/soak/run.ts`, ...options],
    cwd: root,
    stderr: "inherit",
  }).output();
  const said = new TextDecoder().decode(stdout);
  assert.equal(code, 0, said);
  return said;
}

Deno.test("connecting and closing again and again leaves no process, no socket and no memory, over every transport", async () => {
  const said = await soaked(
    ...["--cycles", "200", "--served", "24", "--processes", "8", "--steps", "0"],
  );
  for (const kind of Object.keys(KINDS)) assert.ok(said.includes(`${kind}: `), said);
});

Deno.test("the heap of a run of 300 steps stays bounded, and is free behind it", async () => {
  const said = await soaked("--only", "long run", "--steps", "300");
  assert.equal(said.match(/^long run, results of \d+ bytes: 300 steps/gm)?.length, 2, said);
});
