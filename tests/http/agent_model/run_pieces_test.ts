import assert from "node:assert/strict";
import type { FinishReason, HubEvent } from "../../../src/core/event.ts";
import { NO_USAGE } from "../../../src/core/usage.ts";
import { RunPieces } from "../../../src/http/agent_model/run_pieces.ts";

const say = (id: string, delta: string): HubEvent => ({ type: "text-delta", id, delta });
const step = (step: number): HubEvent => ({ type: "step-start", step });
const finish = (finishReason: FinishReason) => ({
  type: "finish" as const,
  finishReason,
  usage: { ...NO_USAGE },
  costMicros: null,
  metadata: { model: "m", provider: "p" },
});
const read = (events: readonly HubEvent[], isJson = false) => {
  const pieces = new RunPieces({ isJson, toolResults: false });
  const taken = events.flatMap((event) => pieces.take(event));
  const texts = taken.map((piece) => piece.type === "text" ? piece.text : `(${piece.type})`);
  return { pieces, texts };
};

Deno.test("words of steps stand one below the other, also behind one that began again", () => {
  const begun = [step(0), say("a", "One"), say("a", " two")];
  assert.deepEqual(read([...begun, step(1), say("b", "Three")]).texts, [
    "One",
    " two",
    "\n\nThree",
  ]);
  const again: HubEvent = { type: "step-reset", step: 0 };
  assert.deepEqual(read([...begun, again, say("b", "One")]).texts, ["One", " two", "\n\nOne"]);
  assert.deepEqual(read([step(0), step(1), say("a", "One")]).texts, ["One"]);
});

Deno.test("an end that is no answer is thrown; JSON that does not fit is never one", () => {
  const { pieces } = read([{ type: "error", errorText: "Down", code: "x", retryable: false }]);
  assert.throws(() => pieces.end(finish("error")), { clientCode: "x", message: "Down" });
  assert.throws(() => pieces.end(finish("aborted")), { code: "aborted" });
  const json = read([step(0), say("a", '{"a":1}')], true);
  assert.deepEqual(json.texts, []);
  assert.throws(() => json.pieces.end(finish("stop")), { clientCode: "answer_invalid" });
  json.pieces.take({ type: "data", name: "answer", id: "answer-0", data: { value: { a: 1 } } });
  const { pieces: last, finishReason } = json.pieces.end(finish("max-steps"));
  assert.deepEqual([last, finishReason], [[{ type: "text", text: '{"a":1}' }], "stop"]);
  assert.equal(read([]).pieces.end(finish("max-cost")).finishReason, "length");
  assert.equal(read([]).pieces.end(finish("content-filter")).finishReason, "content_filter");
});
