import assert from "node:assert/strict";
import { findShell } from "../../src/process/shell_program.ts";

Deno.test("the shell is the first one of PATH, or an error says what to do", async (t) => {
  const path = "relative:/none:/links/:/bin";
  const files = new Set(["/links/sh", "/bin/sh"]);
  const ground = { path, isProgram: (file: string) => files.has(file), mayRun: () => true };

  await t.step("the first one, in absolute folders alone", () => {
    assert.equal(findShell(ground), "/links/sh");
    assert.equal(findShell({ ...ground, path: "/bin" }), "/bin/sh");
  });

  await t.step("none", () => {
    assert.throws(() => findShell({ ...ground, path: "/none:/other" }), {
      code: "invalid_configuration",
      message: /no folder of PATH \(\/none:\/other\) has it: add the folder of sh/,
    });
  });

  await t.step("one that may not be started", () => {
    assert.throws(() => findShell({ ...ground, mayRun: (file) => file === "/bin/sh" }), {
      code: "invalid_configuration",
      message: /by \/links\/sh, .* no permission to run it: start it with --allow-run=sh/,
    });
  });
});
