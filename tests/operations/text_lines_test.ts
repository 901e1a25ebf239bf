import assert from "node:assert/strict";
import { lineSpans, MAX_LINE_CHARS } from "../../src/operations/text_lines.ts";

Deno.test("lines end at line feeds, long ones after some characters", () => {
  const long = "x".repeat(MAX_LINE_CHARS);
  const text = `a\n\n${long}${long}b\nc`;
  assert.deepEqual(
    lineSpans(text).map(({ start, end }) => text.slice(start, end)),
    ["a", "", long, long, "b", "c"],
  );
  assert.deepEqual(lineSpans("a\n"), [{ start: 0, end: 1 }, { start: 2, end: 2 }]);
  assert.deepEqual(lineSpans(""), [{ start: 0, end: 0 }]);
});
