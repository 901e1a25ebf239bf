import assert from "node:assert/strict";
import { permissionFlags } from "../../src/cli/permission_flags.ts";
import { assertSharedPorts } from "../../src/cli/start.ts";

Deno.test("workers get what the task start names", async () => {
  const text = await Deno.readTextFile(new URL("../../deno.json", import.meta.url));
  const { command } = JSON.parse(text).tasks.start;
  const named = new Set(["net", "env", "read", "write"]);
  assert.deepEqual(
    permissionFlags((name) => named.has(name)),
    command.split(" ").filter((word: string) => word.startsWith("--allow-")),
  );
});

Deno.test("workers get more when their parent has it, and never more than their parent", () => {
  assert.deepEqual(permissionFlags(() => true).slice(4), ["--allow-run", "--allow-sys"]);
  assert.throws(() => permissionFlags((name) => name !== "net"), /--allow-net without a list/);
});

Deno.test("several processes on one port are refused where the kernel does not spread connections", () => {
  assertSharedPorts("linux");
  for (const os of ["darwin", "windows"] as const) {
    assert.throws(() => assertSharedPorts(os), /on Linux only, and this is/);
  }
});
