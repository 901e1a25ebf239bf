import assert from "node:assert/strict";
import { readAnswerFacts } from "../../src/wire/answer_facts.ts";

const read = (answer: unknown) => readAnswerFacts(new TextEncoder().encode(JSON.stringify(answer)));

Deno.test("whole answers of each dialect say who gave them and why they ended", () => {
  const choices = [{ finish_reason: "stop" }, { finish_reason: "length" }, { finish_reason: null }];
  assert.deepEqual(read({ model: "a", choices }), {
    model: "a",
    finishReasons: ["stop", "length"],
  });
  assert.deepEqual(read({ model: "b", stop_reason: "end_turn" }), {
    model: "b",
    finishReasons: ["end_turn"],
  });
  assert.deepEqual(read({ model: "c", status: "completed", output: [] }), {
    model: "c",
    finishReasons: ["completed"],
  });
});

Deno.test("what is no answer, or a very long one, says nothing", () => {
  const nothing = { model: null, finishReasons: [] };
  for (
    const answer of [null, 5, [], { model: 5, choices: [3] }, { choices: "x".repeat(2 << 20) }]
  ) {
    assert.deepEqual(read(answer), nothing);
  }
  assert.deepEqual(readAnswerFacts(new TextEncoder().encode("{")), nothing);
});
