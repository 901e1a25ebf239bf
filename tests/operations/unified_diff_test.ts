import assert from "node:assert/strict";
import fc from "fast-check";
import { unifiedDiff } from "../../src/operations/unified_diff.ts";
import { property } from "../support/property.ts";

const whole = { path: "a.txt", maxBytes: 1_000_000 };
const lines = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => `line ${from + at}\n`).join("");

/** Applies a diff as `patch` does. */
function apply(before: string, diff: string): string {
  const old = before === "" ? [] : before.split(/(?<=\n)/);
  const made: string[] = [];
  let at = 0;
  const rows = diff.split("\n").slice(2);
  for (const [index, row] of rows.entries()) {
    if (row.startsWith("\\")) continue;
    const end = rows[index + 1]?.startsWith("\\") ? "" : "\n";
    const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$/.exec(row);
    if (head !== null) {
      const from = Number(head[1]) - (head[2] === "0" ? 0 : 1);
      made.push(...old.slice(at, from));
      at = from;
      const started = Number(head[3]) - (head[4] === "0" ? 0 : 1);
      assert.equal(made.length, started, row);
    } else if (row.startsWith("+")) made.push(row.slice(1) + end);
    else {
      assert.equal(old[at], row.slice(1) + end);
      if (row.startsWith(" ")) made.push(old[at] ?? "");
      at++;
    }
  }
  return [...made, ...old.slice(at)].join("");
}

Deno.test("a diff is as diff -u writes it", () => {
  const before = `${lines(0, 20)}`;
  const after = before.replace("line 4\n", "line four\n").replace("line 15\n", "").concat("end");
  assert.deepEqual(unifiedDiff(before, after, whole), {
    isCut: false,
    diff: [
      "--- a/a.txt",
      "+++ b/a.txt",
      "@@ -2,7 +2,7 @@",
      " line 1",
      " line 2",
      " line 3",
      "-line 4",
      "+line four",
      " line 5",
      " line 6",
      " line 7",
      "@@ -13,8 +13,8 @@",
      " line 12",
      " line 13",
      " line 14",
      "-line 15",
      " line 16",
      " line 17",
      " line 18",
      " line 19",
      "+end",
      "\\ No newline at end of file",
    ].join("\n"),
  });
  assert.equal(
    unifiedDiff(null, "one\n", whole).diff,
    "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+one",
  );
  assert.deepEqual(unifiedDiff("same", "same", whole), { diff: "", isCut: false });
});

const text = fc.array(fc.constantFrom("a\n", "b\n", "c\r\n", "\n", " - x\n", "é"), {
  maxLength: 40,
})
  .map((parts) => parts.join(""));
property(
  "whatever two texts are, the diff makes one of the other",
  fc.tuple(text, text),
  ([before, after]) => {
    const { diff, isCut } = unifiedDiff(before, after, whole);
    assert.equal(isCut, false);
    assert.equal(diff === "" ? before : apply(before, diff), after);
  },
);

Deno.test("a diff is bounded in time and bytes, and says so", () => {
  const [before, after] = [lines(0, 60_000), lines(60_000, 120_000)];
  const startedMs = performance.now();
  const cut = unifiedDiff(before, after, { path: "a", maxBytes: 2000 });
  assert.ok(performance.now() - startedMs < 5000);
  assert.equal(cut.isCut, true);
  assert.ok(new TextEncoder().encode(cut.diff).length <= 2000);
  assert.equal(apply(before, unifiedDiff(before, after, { path: "a", maxBytes: 1e8 }).diff), after);
  const long = unifiedDiff("x".repeat(5000), "y", whole);
  assert.ok(long.isCut && long.diff.length < 1200);
});
