import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject } from "../../../src/core/json.ts";
import {
  decodeMessagesError,
  readMessagesErrorFacts,
} from "../../../src/wire/anthropic/decode_error.ts";
import { MESSAGES } from "../../../src/wire/anthropic/messages_dialect.ts";

const FACTS = { id: "chat-1", created: 5, model: "m", includeUsage: true };
const encoder = new TextEncoder();
const sse = (event: object) => `data: ${JSON.stringify(event)}\n\n`;

interface Chunk {
  id?: string;
  choices?: { delta: JsonObject; finish_reason: string | null }[];
  usage?: JsonObject;
  error?: JsonObject;
}

function read(pieces: readonly (string | Uint8Array)[]) {
  const maker = MESSAGES.startChunks(FACTS);
  const chunks = pieces.flatMap((piece) =>
    maker.push(typeof piece === "string" ? encoder.encode(piece) : piece)
  );
  chunks.push(...maker.end());
  return { chunks: chunks as Chunk[], done: maker.done };
}

const deltas = (chunks: Chunk[]) =>
  chunks.flatMap(({ choices = [] }): JsonObject[] =>
    choices[0] === undefined ? [] : [choices[0].delta]
  );

const block = (index: number, start: object, ...list: object[]) => [
  sse({ type: "content_block_start", index, content_block: start }),
  ...list.map((delta) => sse({ type: "content_block_delta", index, delta })),
  sse({ type: "content_block_stop", index }),
];

const START = sse({
  type: "message_start",
  message: {
    id: "msg_1",
    model: "claude-x",
    usage: {
      input_tokens: 10,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 4,
      output_tokens: 1,
    },
  },
});
const END = [
  sse({
    type: "message_delta",
    delta: { stop_reason: "tool_use", stop_sequence: null },
    usage: {
      input_tokens: 0,
      cache_read_input_tokens: null,
      output_tokens: 20,
      output_tokens_details: { thinking_tokens: 8 },
    },
  }),
  sse({ type: "message_stop" }),
];

const ANSWER = [
  START,
  'event: ping\ndata: {"type": "ping"}\n\n',
  ...block(
    0,
    { type: "thinking", thinking: "", signature: "" },
    { type: "thinking_delta", thinking: "We" },
    { type: "thinking_delta", thinking: "ll" },
    { type: "signature_delta", signature: "sig" },
  ),
  ": a comment\r\n\r\n",
  ...block(1, { type: "redacted_thinking", data: "opaque" }),
  ...block(
    2,
    { type: "text", text: "" },
    { type: "text_delta", text: "Hi \ud83d" },
    { type: "citations_delta", citation: {} },
    { type: "text_delta", text: "\udc4b é" },
  ),
  ...block(
    3,
    { type: "tool_use", id: "toolu_1", name: "f", input: {} },
    { type: "input_json_delta", partial_json: "" },
    { type: "input_json_delta", partial_json: '{"a":' },
    { type: "input_json_delta", partial_json: "1}" },
  ),
  "data: {not json}\n\n",
  ...block(4, { type: "tool_use", id: "toolu_2", name: "g", input: {} }, {
    type: "input_json_delta",
    partial_json: "",
  }),
  ...block(5, { type: "server_tool_use", id: "s", name: "web_search", input: {} }),
  ...END,
];

Deno.test("a streamed answer: every kind of block, usage, the provider's own id", () => {
  const { chunks, done } = read(ANSWER);
  assert.ok(done);
  assert.ok(chunks.every(({ id }) => id === "msg_1"));
  const format = "anthropic-claude-v1";
  assert.deepEqual(deltas(chunks), [
    { role: "assistant", content: "" },
    { reasoning_content: "We" },
    { reasoning_content: "ll" },
    {
      reasoning_details: [
        { type: "reasoning.text", text: "Well", signature: "sig", format, index: 0 },
      ],
    },
    { reasoning_details: [{ type: "reasoning.encrypted", data: "opaque", format, index: 1 }] },
    { content: "Hi \ud83d" },
    { content: "\udc4b é" },
    {
      tool_calls: [
        { index: 0, id: "toolu_1", type: "function", function: { name: "f", arguments: "" } },
      ],
    },
    { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: "1}" } }] },
    {
      tool_calls: [
        { index: 1, id: "toolu_2", type: "function", function: { name: "g", arguments: "" } },
      ],
    },
    { tool_calls: [{ index: 1, function: { arguments: "{}" } }] },
    {},
  ]);
  assert.deepEqual(chunks.at(-1)?.usage, {
    prompt_tokens: 17,
    completion_tokens: 20,
    total_tokens: 37,
    prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 8 },
  });
  assert.deepEqual(chunks.at(-1)?.choices, []);
  assert.equal(chunks.at(-2)?.choices?.[0]?.finish_reason, "tool_calls");
});

Deno.test("the chunks do not depend on how the bytes are cut, nor on line ends", () => {
  const whole = read(ANSWER);
  for (const text of [ANSWER.join(""), ANSWER.join("").replaceAll(/\r?\n/g, "\r\n")]) {
    const bytes = encoder.encode(text);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 40 }), (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        const pieces = places.slice(1).map((to, at) => bytes.slice(places[at], to));
        assert.deepEqual(read(pieces), whole);
      }),
      { numRuns: 50 },
    );
    assert.deepEqual(read(Array.from(bytes, (byte) => Uint8Array.of(byte))), whole);
  }
});

Deno.test("without its end mark an answer is not done and gets no finish reason", () => {
  for (let length = 0; length < ANSWER.length; length++) {
    const { chunks, done } = read(ANSWER.slice(0, length));
    assert.equal(done, false);
    assert.ok(chunks.every(({ choices = [] }) => choices[0]?.finish_reason === null));
  }
  assert.equal(read([START, sse({ type: "message_stop" })]).done, false);
});

Deno.test("an error inside the stream ends it", () => {
  const error = { type: "overloaded_error", message: "Overloaded" };
  const { chunks, done } = read([...ANSWER.slice(0, 6), sse({ type: "error", error }), ...END]);
  assert.equal(done, false);
  assert.deepEqual(chunks.at(-1), {
    error: { message: "Overloaded", type: "server_error", param: null, code: "overloaded" },
  });
});

const whole = (message: JsonObject) =>
  MESSAGES.decodeAnswer({ type: "message", role: "assistant", ...message }, FACTS) as unknown as {
    id: string;
    choices: { message: JsonObject; finish_reason: string }[];
    usage?: JsonObject;
  };

Deno.test("stop reasons", () => {
  const stops = {
    end_turn: "stop",
    stop_sequence: "stop",
    max_tokens: "length",
    model_context_window_exceeded: "length",
    pause_turn: "length",
    tool_use: "tool_calls",
    refusal: "content_filter",
    brand_new: "brand_new",
  };
  for (const [reason, wanted] of Object.entries(stops)) {
    const { choices } = whole({ content: [], stop_reason: reason });
    assert.equal(choices[0]?.finish_reason, wanted);
    assert.equal(choices[0]?.message["refusal"] !== null, reason === "refusal");
  }
  const stop_details = { type: "refusal", category: "cyber", explanation: "Not that" };
  const refused = whole({ content: [], stop_reason: "refusal", stop_details });
  assert.equal(refused.choices[0]?.message["refusal"], "Not that");
  const streamed = read([
    START,
    sse({ type: "message_delta", delta: { stop_reason: "refusal", stop_details } }),
    sse({ type: "message_stop" }),
  ]);
  assert.ok(deltas(streamed.chunks).some(({ refusal }) => refusal === "Not that"));
});

Deno.test("a whole answer says what the same one says streamed", () => {
  const { choices, usage, id } = whole({
    id: "msg_1",
    content: [
      { type: "thinking", thinking: "Well", signature: "sig" },
      { type: "text", text: "Hi " },
      { type: "text", text: "you" },
      { type: "tool_use", id: "t1", name: "f", input: { a: 1 } },
      { type: "thinking", thinking: "On", signature: "sig2" },
      { type: "tool_use", id: "", name: "g", input: {} },
    ],
    stop_reason: "tool_use",
    usage: { input_tokens: 1, output_tokens: 2 },
  });
  assert.equal(id, "msg_1");
  assert.equal(usage?.["prompt_tokens"], 1);
  const { message } = choices[0] ?? {};
  assert.equal(message?.["content"], "Hi you");
  assert.equal(message?.["reasoning_content"], "WellOn");
  assert.deepEqual((message?.["reasoning_details"] as JsonObject[]).map((one) => one["index"]), [
    0,
    3,
  ]);
  assert.deepEqual(message?.["tool_calls"], [
    { id: "t1", type: "function", function: { name: "f", arguments: '{"a":1}' } },
    { id: "call_1_1", type: "function", function: { name: "g", arguments: "{}" } },
  ]);
  const back = MESSAGES.encodeRequest({
    model: "claude-sonnet-4-6",
    messages: [{ role: "user", content: "x" }, { ...message } as JsonObject],
  }, {}).body["messages"] as { content: JsonObject[] }[];
  assert.deepEqual(
    back[1]?.content.map(({ type }) => type),
    ["thinking", "text", "tool_use", "thinking", "tool_use"],
  );
});

Deno.test("what is no message is malformed, an error with status 200 an error", () => {
  for (const body of [{}, { content: "x", stop_reason: "end_turn" }, { content: [] }]) {
    assert.throws(() => whole(body), /no message that has ended/);
  }
  const error = { type: "api_error", message: "Oops" };
  assert.deepEqual(MESSAGES.decodeAnswer({ type: "error", error }, FACTS), {
    error: { message: "Oops", type: "server_error", param: null, code: null },
  });
});

Deno.test("errors in OpenAI's words", () => {
  const decode = (type: string, message: string, status: number) => {
    const error = decodeMessagesError({ type: "error", error: { type, message } }, status);
    return [error.type, error.code];
  };
  assert.deepEqual(decode("overloaded_error", "Overloaded", 529), ["server_error", "overloaded"]);
  assert.deepEqual(decode("rate_limit_error", "Slow", 429), [
    "rate_limit_error",
    "rate_limit_exceeded",
  ]);
  for (
    const message of [
      "prompt is too long: 208310 tokens > 200000 maximum",
      "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease",
    ]
  ) {
    const error = decodeMessagesError({ error: { type: "invalid_request_error", message } }, 400);
    assert.equal(error.code, "context_length_exceeded");
    assert.equal(error.message, message);
  }
  assert.equal(decodeMessagesError("<html>", 502).type, "server_error");
  assert.equal(decodeMessagesError({ error: { type: "new" } }, 418).type, "invalid_request_error");
  const poor = { error: { message: "Your credit balance is too low to access the Anthropic API" } };
  assert.deepEqual(readMessagesErrorFacts(poor), { status: 402 });
  assert.deepEqual(readMessagesErrorFacts({ error: { message: "x" } }), {});
});
