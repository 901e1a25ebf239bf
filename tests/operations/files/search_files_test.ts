import assert from "node:assert/strict";
import { keepFitting } from "../../../src/operations/files/find_files.ts";
import { pathMatcher } from "../../../src/operations/files/glob_pattern.ts";
import { lineExpression } from "../../../src/operations/files/line_expression.ts";
import { systemClock } from "../../support/system_clock.ts";
import { withFiles } from "./rig.ts";

/** The longest time that nothing else had its turn while `work` ran. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let lastMs = performance.now();
  const look = () => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const timer = setInterval(look, 1);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return longestMs;
}

Deno.test("an expression that makes others stand still for years only takes its turns", () =>
  withFiles(async (rig) => {
    const line = `${"a".repeat(3000)}b`;
    await Deno.writeTextFile(`${rig.ws}/file`, Array(200).fill(line).join("\n"));
    await rig.ok("grep", { pattern: "warm" });
    const tookMs = await longestTurn(async () => {
      for (const pattern of ["(a+)+$", "(a|aa)+$", "(a|a)+$", "^(([a-z])+.)+[A-Z]([a-z])+$"]) {
        assert.match(await rig.ok("grep", { pattern }), /^\(0 lines found in 1 of 1 files/);
      }
    });
    assert.ok(tookMs < 1000, `${tookMs} ms`);
  }));

Deno.test("an expression is as long as its repeats make it, and too long a one is refused", () =>
  withFiles(async (rig) => {
    await Deno.writeTextFile(`${rig.ws}/file`, `${"ab".repeat(5000)}1\nshort1`);
    await rig.ok("grep", { pattern: "warm" });
    const tookMs = await longestTurn(async () => {
      const long = `(?:${"a?".repeat(480)}){300}[^a-z]`;
      assert.match(await rig.fails("grep", { pattern: long }), /more than 2000/);
      const nested = "((((x{9}){9}[(]){9}){9}){9}";
      assert.match(await rig.fails("grep", { pattern: nested }), /more than 2000/);
      const slow = await rig.ok("grep", { pattern: "(?:a?b?){390}[^a-z]" });
      assert.match(slow, /^file:2: short1\n\(1 lines .*of lines the first \d+ characters/);
    });
    assert.ok(tookMs < 1000, `${tookMs} ms`);
  }));

Deno.test("what is no repeat is not taken for one", async () => {
  for (const pattern of ["\\(a{99}\\)", "[(]{99}", "\\Q({999}\\E", "a{99}|b{99}", "(?i)x{99}"]) {
    const { maxChars } = await lineExpression(pattern, { ignoreCase: false });
    assert.equal(maxChars, 4000, pattern);
  }
});

Deno.test("a pattern over very many paths only takes its turns, and ends when it is stopped", async () => {
  const choices = Array.from({ length: 60 }, (_, index) => `*a*b${index}`).join();
  const matches = pathMatcher(`{${choices}}`);
  const entries = Array.from({ length: 20_000 }, (_, index) => ({
    type: "file" as const,
    size: 1,
    changed: 0,
    path: `some/folder/of/a/b/c/deep/name-${index}.ts`,
  }));
  const stop = new AbortController();
  const options = { clock: systemClock, signal: stop.signal };
  const tookMs = await longestTurn(async () => {
    assert.deepEqual(await keepFitting(entries, matches, options), []);
  });
  assert.ok(tookMs < 250, `${tookMs} ms`);
  const work = keepFitting(entries, matches, options);
  stop.abort(new Error("stopped"));
  await assert.rejects(work, /stopped/);
});
