import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../../src/core/json.ts";
import type { ModelEvent } from "../../../src/core/model.ts";
import { createChatDecoder } from "../../../src/wire/openai_chat/decode_stream.ts";
import { chatFrames } from "../../support/chat_replies.ts";
import { property } from "../../support/property.ts";

const encoder = new TextEncoder();
const frameOf = (chunk: Json) => encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`);
const delta = (value: Json) => frameOf({ choices: [{ index: 0, delta: value }] });
const finish = (reason: Json) =>
  frameOf({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });

/** The events of these frames, ended with `stop` when they do not end by themselves. */
function decode(frames: Uint8Array[], last: Json = "stop"): ModelEvent[] {
  const decoder = createChatDecoder();
  const events = frames.flatMap((frame) => decoder.push(frame));
  decoder.push(finish(last));
  return [...events, ...decoder.end()];
}

const textOf = (events: readonly ModelEvent[]) =>
  events.map((event) => event.type === "text-delta" ? event.delta : "").join("");

Deno.test("text, its end and its usage", () => {
  const decoder = createChatDecoder();
  const frames = chatFrames({ text: "Hello there", usage: { promptTokens: 3, cachedTokens: 2 } });
  const events = frames.flatMap((frame) => decoder.push(encoder.encode(frame)));
  assert.deepEqual([...events, ...decoder.end()], [
    { type: "text-delta", delta: "Hello " },
    { type: "text-delta", delta: "there" },
    {
      type: "usage",
      usage: {
        promptTokens: 3,
        completionTokens: 0,
        totalTokens: 3,
        cachedTokens: 2,
        reasoningTokens: 0,
      },
    },
    { type: "finish", finishReason: "stop" },
  ]);
});

for (
  const [reason, wanted] of [
    ["stop", "stop"],
    ["end_turn", "stop"],
    ["length", "length"],
    ["max_tokens", "length"],
    ["content_filter", "content-filter"],
    ["tool_calls", "tool-calls"],
    ["function_call", "tool-calls"],
    ["something_new", "unknown"],
    ["constructor", "unknown"],
    ["toString", "unknown"],
  ] as const
) {
  Deno.test(`the finish reason ${reason} is ${wanted}`, () => {
    assert.deepEqual(decode([], reason), [{ type: "finish", finishReason: wanted }]);
  });
}

for (const reason of [null, "", 7, {}]) {
  Deno.test(`the finish reason ${JSON.stringify(reason)} is none: the answer was cut`, () => {
    assert.throws(() => decode([delta({ content: "x" })], reason), { code: "upstream_cut" });
  });
}

Deno.test("[DONE] alone does not make an answer whole", () => {
  const decoder = createChatDecoder();
  decoder.push(encoder.encode("data: [DONE]\n\n"));
  assert.throws(() => decoder.end(), { code: "upstream_cut" });
});

Deno.test("reasoning comes with the field it came in, once when a server sends it twice", () => {
  assert.deepEqual(
    decode([
      delta({ reasoning_content: "a" }),
      delta({ reasoning: "b" }),
      delta({ reasoning_content: "c", reasoning: "c", content: "" }),
      delta({ reasoning: "d", reasoning_details: [{ type: "x", signature: "s" }] }),
      delta({ reasoning_details: [] }),
    ]).slice(0, -1),
    [
      { type: "reasoning-delta", delta: "a", field: "reasoning_content" },
      { type: "reasoning-delta", delta: "b", field: "reasoning" },
      { type: "reasoning-delta", delta: "c", field: "reasoning_content" },
      { type: "reasoning-delta", delta: "d", field: "reasoning" },
      {
        type: "reasoning-payload",
        field: "reasoning_details",
        payload: [{ type: "x", signature: "s" }],
      },
    ],
  );
});

Deno.test("a refusal is text", () => {
  assert.equal(textOf(decode([delta({ refusal: "I won't" })])), "I won't");
});

Deno.test("two calls, their arguments in pieces and mixed, are two calls", () => {
  const part = (index: number, more: Record<string, Json>) =>
    delta({ tool_calls: [{ index, ...more }] });
  assert.deepEqual(
    decode([
      part(0, { id: "a", type: "function", function: { name: "f", arguments: "" } }),
      part(1, { id: "b", type: "function", function: { name: "g", arguments: '{"y"' } }),
      part(0, { function: { arguments: '{"x":' } }),
      part(1, { function: { arguments: ":2}" } }),
      part(0, { id: "a", function: { name: "f", arguments: "1}" } }),
    ], "tool_calls"),
    [
      { type: "tool-call-start", index: 0, providerCallId: "a", toolName: "f" },
      { type: "tool-call-start", index: 1, providerCallId: "b", toolName: "g" },
      { type: "tool-call-delta", index: 1, delta: '{"y"' },
      { type: "tool-call-delta", index: 0, delta: '{"x":' },
      { type: "tool-call-delta", index: 1, delta: ":2}" },
      { type: "tool-call-delta", index: 0, delta: "1}" },
      { type: "finish", finishReason: "tool-calls" },
    ],
  );
});

Deno.test("arguments as an object become text; pieces of a call that never began are dropped", () => {
  const events = decode([
    delta({ tool_calls: [{ index: 3, function: { arguments: "lost" } }, 7, null] }),
    delta({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: { x: 1 } } }] }),
  ]);
  assert.deepEqual(events.slice(0, -1), [
    { type: "tool-call-start", index: 0, providerCallId: "a", toolName: "f" },
    { type: "tool-call-delta", index: 0, delta: '{"x":1}' },
  ]);
});

Deno.test("of several choices the first one is the answer", () => {
  const frames = chatFrames({ text: "one two three", n: 2 }).map((frame) => encoder.encode(frame));
  assert.equal(textOf(decode(frames)), "one two three");
  const both = frameOf({
    choices: [{ index: 1, delta: { content: "no" } }, { index: 0, delta: { content: "yes" } }],
  });
  assert.equal(textOf(decode([both])), "yes");
  assert.equal(textOf(decode([frameOf({ choices: [{ delta: { content: "x" } }] })])), "x");
});

Deno.test("an error object ends the answer; null is none", () => {
  const decoder = createChatDecoder();
  decoder.push(frameOf({ error: null, choices: [] }));
  assert.throws(() => decoder.push(frameOf({ error: { message: "Overloaded" } })), {
    code: "upstream_error",
    message: "The provider reported an error in its stream",
  });
});

Deno.test("frames that are no JSON are counted and passed over, others that mean nothing are not", () => {
  const decoder = createChatDecoder();
  const frames = [
    "data: {broken\n\n",
    ": a comment\n\n",
    "event: ping\ndata:\n\n",
    "data: 7\n\ndata: null\n\ndata: []\n\n",
    'data: {"choices":null}\n\ndata: {"choices":[7]}\n\ndata: {"choices":[{"delta":7}]}\n\n',
    'data: {"choices":[{"delta":{"content":7,"tool_calls":{},"reasoning":[]}}]}\n\n',
  ];
  assert.deepEqual(frames.flatMap((frame) => decoder.push(encoder.encode(frame))), []);
  assert.equal(decoder.malformedFrames, 1);
});

property(
  "any JSON as frames gives events or an upstream's failure, and no text is lost",
  fc.array(
    fc.oneof(
      fc.record({ choices: fc.array(fc.record({ delta: fc.jsonValue({ maxDepth: 3 }) })) }),
      fc.record({ content: fc.string({ unit: "binary" }) }).map((value) => ({
        choices: [{ index: 0, delta: value }],
      })),
      fc.jsonValue({ maxDepth: 4 }),
    ),
    { maxLength: 10 },
  ),
  (chunks) => {
    const wanted = chunks.map((chunk) => {
      const { choices } = (chunk ?? {}) as { choices?: { index?: number; delta?: unknown }[] };
      const content = choices?.[0]?.index === 0
        ? (choices[0].delta as { content?: unknown } | null)?.content
        : undefined;
      return typeof content === "string" ? content : "";
    }).join("");
    try {
      const events = decode(chunks.map((chunk) => frameOf(chunk as Json)));
      assert.ok(textOf(events).length >= wanted.length);
      assert.equal(events.at(-1)?.type, "finish");
    } catch (error) {
      const { code } = error as { code?: string };
      assert.ok(code === "upstream_error", String(error));
    }
  },
);

Deno.test("reasoning and text in parts of the content, as Mistral streams them", () => {
  const events = decode([
    delta({ content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }, 5] }] }),
    delta({ content: [{ type: "text", text: "Well" }, null, { type: "reference" }] }),
  ]);
  assert.deepEqual(events.slice(0, -1), [
    { type: "reasoning-delta", delta: "hm", field: "content.thinking" },
    { type: "text-delta", delta: "Well" },
  ]);
});
