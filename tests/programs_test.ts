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

/** Links the programs of a folder of the search path into another folder, without curl. */
async function linkPrograms(from: string, to: string): Promise<void> {
  for (const { name } of from === "" ? [] : await readFolder(from)) {
    if (name !== "curl") await Deno.symlink(`${from}/${name}`, `${to}/${name}`).catch(() => {});
  }
}

function readFolder(path: string): Promise<Deno.DirEntry[]> {
  return Array.fromAsync(Deno.readDir(path)).catch(() => []);
}

Deno.test("a test run names what is left out before its tests and after them", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.chmod(folder, 0o755);
    for (const path of (Deno.env.get("PATH") ?? "").split(":")) await linkPrograms(path, folder);
    const file = `${folder}/one_test.ts`;
    await Deno.writeTextFile(file, 'Deno.test("the only test", () => {});');
    const { code, stdout } = await new Deno.Command("/bin/sh", {
      args: ["-c", 'exec "$0" run --allow-all tests/run.ts "$1" 2>&1', Deno.execPath(), file],
      env: { PATH: folder, CI: "", NO_COLOR: "1" },
      cwd: new URL("../", import.meta.url),
    }).output();
    const out = new TextDecoder().decode(stdout);
    assert.equal(code, 0, out);
    const named = [...out.matchAll(/Tests with curl are left out/g)].map(({ index }) => index);
    const ran = out.indexOf("the only test");
    assert.deepEqual(named.map((at) => at < ran), [true, false], out);
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
