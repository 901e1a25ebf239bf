import assert from "node:assert/strict";
import fc from "fast-check";
import { checkLog } from "../../src/core/check_log.ts";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import type { ModelEvent } from "../../src/core/model.ts";
import { StepWriter, type StepWriterOptions } from "../../src/core/step_writer.ts";
import { NO_USAGE } from "../../src/core/usage.ts";
import { property } from "../support/property.ts";

const START: ModelEvent = { type: "response-start", provider: "acme", model: "m1", attempt: 1 };
const text = (delta: string): ModelEvent => ({ type: "text-delta", delta });
const think = (delta: string, field = "reasoning"): ModelEvent => ({
  type: "reasoning-delta",
  delta,
  field,
});
const begin = (index: number, toolName = "tool"): ModelEvent => ({
  type: "tool-call-start",
  index,
  providerCallId: "same",
  toolName,
});
const args = (index: number, delta: string): ModelEvent => ({
  type: "tool-call-delta",
  index,
  delta,
});

function createWriter(options: Partial<StepWriterOptions> = {}): StepWriter {
  let calls = 0;
  return new StepWriter({ firstPart: 0, mintCallId: () => `call_${++calls}`, ...options });
}

Deno.test("deltas of one read are joined per part, and a part ends where another kind begins", () => {
  const writer = createWriter({ firstPart: 4 });
  const events = writer.push([START, think("a"), think("b"), text("c"), text(""), text("d")]);
  assert.deepEqual(events, [
    { type: "reasoning-start", id: "p4" },
    { type: "reasoning-delta", id: "p4", delta: "ab" },
    {
      type: "reasoning-end",
      id: "p4",
      origin: { provider: "acme", model: "m1", field: "reasoning" },
    },
    { type: "text-start", id: "p5" },
    { type: "text-delta", id: "p5", delta: "cd" },
  ]);
  assert.deepEqual(writer.push([text("e")]), [{ type: "text-delta", id: "p5", delta: "e" }]);
  assert.deepEqual(writer.end(), [{ type: "text-end", id: "p5" }]);
  assert.deepEqual(writer.end(), []);
  assert.equal(writer.text, "cde");
  assert.equal(writer.nextPart, 6);
});

Deno.test("arguments that arrive interleaved are joined per call", () => {
  const writer = createWriter({ toolName: (wire) => wire.replace("_", ".") });
  const events = writer.push([
    begin(0, "a_x"),
    args(0, "{"),
    begin(1, "b_y"),
    args(1, "["),
    args(0, "}"),
    args(1, "]"),
  ]);
  assert.deepEqual(events, [
    { type: "tool-input-start", toolCallId: "call_1", toolName: "a.x" },
    { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: "{}" },
    { type: "tool-input-start", toolCallId: "call_2", toolName: "b.y" },
    { type: "tool-input-delta", toolCallId: "call_2", inputTextDelta: "[]" },
  ]);
  assert.deepEqual(writer.calls.map(({ wireName, inputText }) => [wireName, inputText]), [
    ["a_x", "{}"],
    ["b_y", "[]"],
  ]);
});

Deno.test("calls are closed unjudged when nobody executes them", () => {
  const writer = createWriter();
  writer.push([begin(0), begin(1), args(1, '{"a":1}'), begin(2), args(2, '{"a"')]);
  assert.deepEqual(writer.endCalls(), [
    { type: "tool-input-available", toolCallId: "call_1", toolName: "tool", input: {} },
    { type: "tool-input-available", toolCallId: "call_2", toolName: "tool", input: { a: 1 } },
    {
      type: "tool-input-error",
      toolCallId: "call_3",
      toolName: "tool",
      input: '{"a"',
      errorText: "The arguments are not valid JSON",
    },
  ]);
  assert.deepEqual(writer.endCalls(), []);
});

Deno.test("payloads belong to the reasoning around them, pieces of a list are joined", () => {
  const writer = createWriter();
  const details = (n: number): ModelEvent => ({
    type: "reasoning-payload",
    field: "reasoning_details",
    payload: [{ n }],
  });
  const events = [
    ...writer.push([START, think("a"), details(1)]),
    ...writer.push([think("b"), details(2), text("answer")]),
    ...writer.push([details(3)]),
    ...writer.end(),
  ];
  const ends = events.filter((event) => event.type === "reasoning-end");
  const origin = { provider: "acme", model: "m1", field: "reasoning_details" };
  assert.deepEqual(ends, [
    { type: "reasoning-end", id: "p0", origin: { ...origin, payload: [{ n: 1 }, { n: 2 }] } },
    { type: "reasoning-end", id: "p2", origin: { ...origin, payload: [{ n: 3 }] } },
  ]);
  const joined = events.filter((event) => event.type === "reasoning-delta")
    .map((event) => event.delta);
  assert.deepEqual(joined, ["a", "b"]);
});

Deno.test("a payload that its sender keeps is not changed", () => {
  const writer = createWriter();
  const payload = [1];
  writer.push([{ type: "reasoning-payload", field: "f", payload }]);
  writer.push([{ type: "reasoning-payload", field: "f", payload: [2] }]);
  assert.deepEqual(payload, [1]);
});

Deno.test("reasoning of nobody knows whom has no origin", () => {
  const writer = createWriter();
  writer.push([think("a")]);
  assert.deepEqual(writer.end(), [{ type: "reasoning-end", id: "p0" }]);
});

Deno.test("ignored calls leave no trace", () => {
  const writer = createWriter({ ignoreCalls: true });
  assert.deepEqual(writer.push([begin(0), args(0, "{}")]), []);
  assert.deepEqual(writer.calls, []);
  assert.equal(writer.emitted, false);
});

Deno.test("facts of the answer are kept: the last usage counts", () => {
  const writer = createWriter();
  const usage = { ...NO_USAGE, totalTokens: 3 };
  writer.push([START, { type: "usage", usage: { ...NO_USAGE }, costMicros: 1 }]);
  writer.push([{ type: "usage", usage, costMicros: 4 }, {
    type: "finish",
    finishReason: "length",
  }]);
  assert.deepEqual(writer.usage, usage);
  assert.equal(writer.costMicros, 4);
  assert.equal(writer.finishReason, "length");
  assert.deepEqual(writer.responder, { provider: "acme", model: "m1" });
});

Deno.test("arguments without a call, or a second start, are malformed", () => {
  assert.throws(() => createWriter().push([args(0, "{")]), { code: "upstream_malformed" });
  assert.throws(() => createWriter().push([begin(0), begin(0)]), { code: "upstream_malformed" });
});

Deno.test("what was written before a failure comes with the end: no part ends that never began", () => {
  const writer = createWriter();
  assert.throws(() => writer.push([text("a"), args(7, "{"), text("lost")]));
  assert.deepEqual(writer.end(), [
    { type: "text-start", id: "p0" },
    { type: "text-delta", id: "p0", delta: "a" },
    { type: "text-end", id: "p0" },
  ]);
  assert.deepEqual(writer.end(), []);
});

const modelEvent = fc.oneof(
  fc.constantFrom("", "x", "yz").map(text),
  fc.tuple(fc.constantFrom("", "h", "m"), fc.constantFrom("reasoning", "reasoning_content"))
    .map(([delta, field]) => think(delta, field)),
  fc.constantFrom<ModelEvent>(
    { type: "reasoning-payload", field: "details", payload: [1] },
    { type: "reasoning-payload", field: "blob", payload: "x" },
    { type: "source-url", url: "https://example.org/", title: "T" },
    START,
  ),
  fc.tuple(fc.nat(3), fc.constantFrom("{", "}", "")).map(([index, delta]) => args(index, delta)),
);
const answers = fc.array(modelEvent, { maxLength: 30 }).map((events) => {
  // Calls start before their arguments, as decoders promise.
  const started = new Set<number>();
  return events.flatMap((event): ModelEvent[] => {
    if (event.type !== "tool-call-delta" || started.has(event.index)) return [event];
    started.add(event.index);
    return [begin(event.index), event];
  });
});

function write(reads: readonly (readonly ModelEvent[])[]): HubEvent[] {
  const writer = createWriter();
  const events = reads.flatMap((read) => writer.push(read));
  return [
    { type: "start", messageId: "msg_1", runId: "run_1", sessionId: "ses_1", model: "m" },
    { type: "step-start", step: 0 },
    ...events,
    ...writer.end(),
    ...writer.endCalls(),
    { type: "step-finish", step: 0, finishReason: "stop", usage: { ...NO_USAGE } },
  ];
}

property(
  "any answer in any reads gives a valid step, and the same message however it is cut",
  fc.tuple(answers, fc.array(fc.nat(30), { maxLength: 6 })),
  ([events, places]) => {
    const cuts = [...new Set(places)].sort((a, b) => a - b);
    const reads = [...cuts, events.length].map((cut, index) =>
      events.slice(index === 0 ? 0 : cuts[index - 1], cut)
    );
    const [whole, cut] = [write([events]), write(reads)];
    const messages = [whole, cut].map((log) => {
      const numbered = log.map((event, index) => ({ seq: index + 1, event }));
      assert.deepEqual(checkLog(numbered, { complete: false }), []);
      const fold = createFold();
      for (const event of log) fold.apply(event);
      return fold.message();
    });
    assert.deepEqual(messages[0], messages[1]);
    const wanted = events.map((event) => event.type === "text-delta" ? event.delta : "").join("");
    const shown = messages[0]?.parts.map((part) => part.type === "text" ? part.text : "").join("");
    assert.equal(shown, wanted);
  },
  { runs: 500 },
);

Deno.test("StepWriter: a page is one source of a step, a file and one that was left out are events", () => {
  const writer = new StepWriter({ firstPart: 4, mintCallId: () => "call" });
  const url = "https://a.example/";
  assert.deepEqual(
    writer.push([
      { type: "source-url", url, title: "A", cited: { start: 0, end: 1 } },
      { type: "source-url", url, cited: { start: 1, end: 2 } },
      { type: "file", mediaType: "image/png", url: "/v1/f" },
      { type: "file-left-out", mediaType: "image/png", bytes: 9, reason: "why" },
    ]),
    [
      { type: "source-url", sourceId: "p4", url, title: "A" },
      { type: "file", mediaType: "image/png", url: "/v1/f" },
      {
        type: "data",
        name: "file-left-out",
        data: { mediaType: "image/png", bytes: 9, reason: "why" },
      },
    ],
  );
  assert.equal(writer.nextPart, 5);
});
