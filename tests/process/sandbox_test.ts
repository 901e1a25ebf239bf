import assert from "node:assert/strict";

/** In a process of its own, whose folder for temporary files is not there. */
const TRY = `
const { findBubblewrap } = await import(${
  JSON.stringify(import.meta.resolve("../../src/process/sandbox.ts"))
});
const { systemClock } = await import(${
  JSON.stringify(import.meta.resolve("../support/system_clock.ts"))
});
console.log(JSON.stringify(await findBubblewrap({ path: "/usr/bin:/bin", clock: systemClock })));
`;

Deno.test("a system without room for a trial has no bubblewrap that works, and says why", async () => {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", TRY],
    env: { TMPDIR: "/nowhere/at/all" },
    stderr: "inherit",
  }).output();
  const found = JSON.parse(new TextDecoder().decode(stdout));
  assert.equal(found.works, false);
  assert.match(found.reason, /No such file/);
});
