import assert from "node:assert/strict";
import { KINDS } from "./soak.ts";

const root = new URL("../../", import.meta.url).pathname;

Deno.test("connecting and closing again and again leaves no process, no socket and no memory, over every transport", async () => {
  const { tasks } = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  const flags = tasks.soak.command.split(" ").filter((word: string) => word.startsWith("--"));
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-check", ...flags, `${root}tests/soak/run.ts`],
      ...["--cycles", "200", "--served", "24", "--processes", "8"],
    ],
    cwd: root,
    stderr: "inherit",
  }).output();
  const said = new TextDecoder().decode(stdout);
  assert.equal(code, 0, said);
  for (const kind of Object.keys(KINDS)) assert.ok(said.includes(`${kind}: `), said);
});
