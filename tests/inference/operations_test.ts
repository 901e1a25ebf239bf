import assert from "node:assert/strict";
import { defineOperation, Type } from "../../src/operations/operation.ts";
import { toTool } from "../../src/operations/to_tool.ts";
import { asks, finishOf, runRig, says } from "./loop_rig.ts";

const add = toTool(defineOperation({
  namespace: "math",
  name: "add",
  description: "Adds two numbers",
  input: Type.Object({ a: Type.Number(), b: Type.Number() }),
  output: Type.Object({ sum: Type.Number() }),
  effect: "pure",
  run: ({ a, b }) => ({ sum: a + b }),
}));

Deno.test("operations run in the loop: arguments are coerced, problems and results reach the model", async () => {
  const rig = await runRig({
    answers: [
      asks(["math_add", { a: "1", b: 2 }], ["math_add", { a: "one" }]),
      asks(["math_add", '```json\n{"a": 2, "b": 3,}\n```']),
      says("3 and 5"),
    ],
    tools: [add],
  });
  assert.equal(finishOf(rig).finishReason, "stop");
  assert.equal(rig.requests[0]?.tools[0]?.strict, true);
  assert.deepEqual(rig.journal.get("call_1")?.input, { a: 1, b: 2 });
  assert.equal(rig.journal.get("call_1")?.effect, "pure");
  const texts =
    rig.requests[2]?.messages.flatMap((message) =>
      message.role === "tool" ? message.results.map((result) => result.text) : []
    ) ?? [];
  assert.equal(texts[0], '{"sum":3}');
  assert.match(
    texts[1] ?? "",
    /^The arguments of math_add do not fit its schema:\n- \/a: wanted number/,
  );
  assert.match(texts[1] ?? "", /- \/b: wanted/);
  assert.equal(texts[2], '{"sum":5}');
});
