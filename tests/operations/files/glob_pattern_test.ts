import assert from "node:assert/strict";
import { pathMatcher } from "../../../src/operations/files/glob_pattern.ts";

Deno.test("patterns fit paths", () => {
  const fits: [string, string, boolean][] = [
    ["*.ts", "a.ts", true],
    ["*.ts", "src/deep/a.ts", true],
    ["*.ts", "a.tsx", false],
    ["src/*.ts", "src/a.ts", true],
    ["src/*.ts", "src/deep/a.ts", false],
    ["./src/*.ts", "src/a.ts", true],
    ["src/**/*.ts", "src/a.ts", true],
    ["src/**/*.ts", "src/x/y/a.ts", true],
    ["src/**", "src/x/y", true],
    ["**/b/**/d", "a/b/c/b/d", true],
    ["**/b/**/d", "a/c/d", false],
    ["a?c", "abc", true],
    ["a?c", "ac", false],
    ["[a-c]x", "bx", true],
    ["[!a-c]x", "bx", false],
    ["*.{ts,md}", "x/y.md", true],
    ["{src,lib}/{a,b}.ts", "lib/b.ts", true],
    ["{src,lib}/{a,b}.ts", "lib/c.ts", false],
    ["a.b", "axb", false],
    ["(a+)+$", "aaaa", false],
    ["?", "😀", true],
    ["[", "[", true],
  ];
  for (const [pattern, path, wanted] of fits) {
    assert.equal(pathMatcher(pattern)(path), wanted, `${pattern} ${path}`);
  }
});

Deno.test("no pattern takes long, and none stands for too many", () => {
  const startedMs = performance.now();
  assert.equal(pathMatcher("*a".repeat(200) + "b")("a".repeat(4000)), false);
  assert.equal(pathMatcher("**/a/".repeat(80) + "b")("a/".repeat(2000) + "c"), false);
  assert.ok(performance.now() - startedMs < 2000);
  assert.throws(() => pathMatcher("{a,b}".repeat(20)), /stands for more than 64/);
});
