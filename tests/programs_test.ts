import assert from "node:assert/strict";
import { filesUnder } from "./support/files_under.ts";
import { describeMissing, hasProgram, OPTIONAL_PROGRAMS } from "./support/programs.ts";

Deno.test("hasProgram: what is not in the search path is missing, without an error", async () => {
  const folder = await Deno.makeTempDir();
  try {
    assert.equal(hasProgram("curl", folder), false);
    await Deno.writeTextFile(`${folder}/curl`, "");
    assert.equal(hasProgram("curl", folder), false, "a file that cannot be run is no program");
    await Deno.chmod(`${folder}/curl`, 0o755);
    assert.equal(hasProgram("curl", `/no/such/folder:${folder}`), true);
    assert.equal(hasProgram("curl", ""), false);
    const missing = describeMissing(folder);
    assert.equal(missing.length, Object.keys(OPTIONAL_PROGRAMS).length - 1);
    assert.match(
      missing.join("\n"),
      /Tests with pgbouncer are left out \(.*\): it is not installed/,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a test that starts an optional program asks first whether it is there", async () => {
  const names = [...Object.keys(OPTIONAL_PROGRAMS), "psql", "bwrap"].join("|");
  const starts = new RegExp(`Command\\(\\s*"(${names})"`, "g");
  const unasked: string[] = [];
  for (const file of filesUnder("tests", ".ts")) {
    const text = await Deno.readTextFile(file);
    for (const [, name] of text.matchAll(starts)) {
      if (!text.includes(`hasProgram("${name}")`)) unasked.push(`${file}: ${name}`);
    }
  }
  assert.deepEqual(unasked, []);
});
