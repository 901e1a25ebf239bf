import assert from "node:assert/strict";
import { RepeatDetector } from "../../src/inference/repeat_detector.ts";

/** Each letter is a step with one call, `.` a step without; gives the counts. */
function count(steps: string): number[] {
  const detector = new RepeatDetector();
  return [...steps].map((step) => detector.observe(step === "." ? [] : [step]));
}

Deno.test("rows of period one, two and three are counted, also from their middle", () => {
  assert.deepEqual(count("aaaaa"), [1, 2, 3, 4, 5]);
  assert.deepEqual(count("ababab"), [1, 1, 1, 2, 2, 3]);
  assert.deepEqual(count("abcabcabca"), [1, 1, 1, 1, 1, 2, 2, 2, 3, 3]);
  assert.deepEqual(count("abababa").at(-1), 3);
});

Deno.test("other calls, longer circles and steps with nothing to look at end a row", () => {
  assert.deepEqual(count("aabaa"), [1, 2, 1, 1, 2]);
  assert.ok(Math.max(...count("abcdabcdabcdabcd")) < 2);
  assert.deepEqual(count("aa.a"), [1, 2, 0, 1]);
});

Deno.test("the order of calls within a step does not matter, their number does", () => {
  const detector = new RepeatDetector();
  assert.equal(detector.observe(["x", "y"]), 1);
  assert.equal(detector.observe(["y", "x"]), 2);
  assert.equal(detector.observe(["x", "x", "y"]), 1);
});
