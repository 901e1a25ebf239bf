import assert from "node:assert/strict";
import { HubError } from "../../../src/core/error.ts";
import type { Json, JsonObject } from "../../../src/core/json.ts";
import { encodeMessagesRequest } from "../../../src/wire/anthropic/encode_request.ts";

const HI: Json = [{ role: "user", content: "Hi" }];
const TEXT = (text: string) => ({ type: "text", text });

function encode(chat: JsonObject, settings: { maxOutputTokens?: number } = {}): JsonObject {
  return encodeMessagesRequest({ model: "m", messages: HI, ...chat }, settings).body;
}

const turns = (messages: Json, model = "m") => encode({ model, messages })["messages"];

function refused(chat: JsonObject, param: string): void {
  assert.throws(() => encode(chat), (error) => {
    assert.ok(error instanceof HubError, String(error));
    assert.equal(error.code, "invalid_request");
    assert.equal(error.param, param);
    return true;
  });
}

Deno.test("a plain request, and where it goes", () => {
  const { path, body, headers } = encodeMessagesRequest({ model: "m", messages: HI }, {});
  assert.equal(path, "/messages");
  assert.deepEqual(headers, [["anthropic-version", "2023-06-01"]]);
  assert.deepEqual(body, {
    model: "m",
    max_tokens: 8192,
    messages: [{ role: "user", content: [TEXT("Hi")] }],
  });
});

Deno.test("the bound of output: the client's, then the configured one, then the model's", () => {
  const bound = (chat: JsonObject, maxOutputTokens?: number) =>
    encode(chat, maxOutputTokens === undefined ? {} : { maxOutputTokens })["max_tokens"];
  assert.equal(bound({ max_tokens: 5 }, 7), 5);
  assert.equal(bound({ max_completion_tokens: 6, max_tokens: null }, 7), 6);
  assert.equal(bound({}, 7), 7);
  assert.equal(bound({ model: "claude-sonnet-5-5" }), 32_000);
  assert.equal(bound({ model: "claude-3-haiku-20240307" }), 4096);
});

Deno.test("fields of chat completions in the words of the Messages API", () => {
  assert.deepEqual(
    encode({
      stream: true,
      stream_options: { include_usage: true },
      store: false,
      user: "u-1",
      stop: "END",
      temperature: 1.5,
      top_p: 0.9,
      top_k: 5,
      presence_penalty: 0,
      n: 1,
      seed: 7,
      service_tier: "default",
      cache_control: { type: "ephemeral", ttl: "1h" },
      prompt_cache_key: "k",
      logprobs: false,
    }),
    {
      model: "m",
      max_tokens: 8192,
      messages: [{ role: "user", content: [TEXT("Hi")] }],
      temperature: 1,
      top_p: 0.9,
      top_k: 5,
      stop_sequences: ["END"],
      service_tier: "standard_only",
      metadata: { user_id: "u-1" },
      cache_control: { type: "ephemeral", ttl: "1h" },
      stream: true,
    },
  );
  assert.deepEqual(encode({ user: "u", safety_identifier: "s" })["metadata"], { user_id: "s" });
  assert.equal(encode({ user: "x".repeat(300) })["metadata"], undefined);
  assert.deepEqual(encode({ stop: ["a", "b"] })["stop_sequences"], ["a", "b"]);
});

Deno.test("models that sample by themselves get no temperature, others one of two at most", () => {
  const both = { temperature: 0.1, top_p: 0.5, top_k: 3 };
  const sampled = (model: string, chat: JsonObject = both) => {
    const { temperature, top_p, top_k } = encode({ model, ...chat });
    return [temperature, top_p, top_k];
  };
  assert.deepEqual(sampled("claude-opus-4-7"), [undefined, undefined, undefined]);
  assert.deepEqual(sampled("claude-sonnet-4-5-20250929"), [0.1, undefined, 3]);
  assert.deepEqual(sampled("claude-haiku-4-5", { temperature: 1, top_p: 0.5 }), [
    undefined,
    0.5,
    undefined,
  ]);
  assert.deepEqual(sampled("claude-3-haiku-20240307"), [0.1, 0.5, 3]);
  assert.deepEqual(sampled("claude-haiku-4-5", { ...both, reasoning_effort: "low" }), [
    undefined,
    undefined,
    undefined,
  ]);
});

Deno.test("what cannot be carried is refused by name", () => {
  refused({ n: 2 }, "n");
  refused({ logprobs: true }, "logprobs");
  refused({ logit_bias: { 1: 2 } }, "logit_bias");
  refused({ frequency_penalty: 0.5 }, "frequency_penalty");
  refused({ audio: { voice: "x" } }, "audio");
  refused({ modalities: ["text", "audio"] }, "modalities");
  refused({ brand_new: 1 }, "brand_new");
  refused({ service_tier: "flex" }, "service_tier");
  refused({ messages: [] }, "messages");
  refused({ messages: [{ role: "user", content: " " }] }, "messages");
  refused({ messages: [{ role: "function", content: "x" }] }, "messages[0].role");
  const part = (part: JsonObject) => ({ messages: [{ role: "user", content: [part] }] });
  refused(
    part({ type: "input_audio", input_audio: { data: "AA" } }),
    "messages[0].content[0].type",
  );
  refused(part({ type: "file", file: { file_id: "f" } }), "messages[0].content[0]");
  refused(
    part({ type: "image_url", image_url: { url: "data:image/bmp;base64,AA" } }),
    "messages[0].content[0]",
  );
  refused(
    part({ type: "image_url", image_url: { url: "ftp://a/b.png" } }),
    "messages[0].content[0]",
  );
});

Deno.test("system messages: the first ones are the prompt, later ones stay where the model takes them", () => {
  const messages = [
    { role: "system", content: "One" },
    { role: "developer", content: [{ ...TEXT("Two"), cache_control: { type: "ephemeral" } }] },
    { role: "user", content: "Hi" },
    { role: "system", content: "Be brief" },
    { role: "assistant", content: "Ok" },
    { role: "system", content: "Be long" },
    { role: "user", content: "Go" },
  ];
  const newer = encode({ model: "claude-opus-5-5", messages });
  assert.deepEqual(newer["system"], [
    TEXT("One"),
    { ...TEXT("Two"), cache_control: { type: "ephemeral" } },
  ]);
  assert.deepEqual(newer["messages"], [
    { role: "user", content: [TEXT("Hi")] },
    { role: "system", content: [TEXT("Be brief")] },
    { role: "assistant", content: [TEXT("Ok")] },
    { role: "user", content: [TEXT("Be long"), TEXT("Go")] },
  ]);
  assert.deepEqual(turns(messages), [
    { role: "user", content: [TEXT("Hi"), TEXT("Be brief")] },
    { role: "assistant", content: [TEXT("Ok")] },
    { role: "user", content: [TEXT("Be long"), TEXT("Go")] },
  ]);
  assert.deepEqual(encode({ messages: [{ role: "system", content: "Go" }] }), {
    model: "m",
    max_tokens: 8192,
    messages: [{ role: "user", content: [TEXT("Go")] }],
  });
});

Deno.test("turns alternate, begin with the user and hold no blank text", () => {
  assert.deepEqual(
    turns([
      { role: "assistant", content: "Welcome" },
      { role: "user", content: "a", name: "ann" },
      { role: "user", content: [TEXT("b"), TEXT("  ")] },
      { role: "assistant", content: "" },
      { role: "user", content: "c" },
      { role: "assistant", content: "And then \n" },
    ]),
    [
      { role: "user", content: [TEXT("(begin)")] },
      { role: "assistant", content: [TEXT("Welcome")] },
      { role: "user", content: [TEXT("a"), TEXT("b"), TEXT("c")] },
      { role: "assistant", content: [TEXT("And then")] },
    ],
  );
});

Deno.test("images and files become sources, with their cache breakpoints", () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const file = (file_data: string, filename?: string) => ({
    type: "file",
    file: { file_data, ...(filename && { filename }) },
  });
  assert.deepEqual(
    turns([{
      role: "user",
      ...mark,
      content: [
        {
          type: "image_url",
          image_url: { url: "data:image/png;base64,AAAA", detail: "low" },
          ...mark,
        },
        { type: "image_url", image_url: { url: "https://a/b.png" } },
        file("data:application/pdf;base64,JVBE", "a.pdf"),
        file("data:text/plain;base64,w6k="),
        file("data:image/jpeg;base64,AAAA"),
        file("https://a/b.pdf"),
      ],
    }]),
    [{
      role: "user",
      content: [
        {
          type: "image",
          source: { type: "base64", media_type: "image/png", data: "AAAA" },
          ...mark,
        },
        { type: "image", source: { type: "url", url: "https://a/b.png" } },
        {
          type: "document",
          source: { type: "base64", media_type: "application/pdf", data: "JVBE" },
          title: "a.pdf",
        },
        { type: "document", source: { type: "text", media_type: "text/plain", data: "é" } },
        { type: "image", source: { type: "base64", media_type: "image/jpeg", data: "AAAA" } },
        { type: "document", source: { type: "url", url: "https://a/b.pdf" }, ...mark },
      ],
    }],
  );
});

const CALL = (id: string, args: string) => ({
  id,
  type: "function",
  function: { name: "f", arguments: args },
});

Deno.test("calls and their results: results first, ids that the API takes, images inside", () => {
  const messages = [
    { role: "user", content: "Hi" },
    {
      role: "assistant",
      content: null,
      tool_calls: [CALL("functions.f:0", '{"a":1}'), CALL("c2", ""), CALL("c3", "[1")],
    },
    { role: "system", content: "Hurry" },
    { role: "tool", tool_call_id: "functions.f:0", content: "one" },
    {
      role: "tool",
      tool_call_id: "c2",
      content: [
        { ...TEXT("two"), cache_control: { type: "ephemeral" } },
        { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
      ],
    },
    { role: "tool", tool_call_id: "c3", content: "" },
    { role: "user", content: "Well?" },
  ];
  assert.deepEqual(turns(messages, "claude-opus-5-5"), [
    { role: "user", content: [TEXT("Hi")] },
    {
      role: "assistant",
      content: [
        { type: "tool_use", id: "functions_f_0", name: "f", input: { a: 1 } },
        { type: "tool_use", id: "c2", name: "f", input: {} },
        { type: "tool_use", id: "c3", name: "f", input: { invalid_arguments: "[1" } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "functions_f_0", content: "one" },
        {
          type: "tool_result",
          tool_use_id: "c2",
          content: [
            TEXT("two"),
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
          ],
          cache_control: { type: "ephemeral" },
        },
        { type: "tool_result", tool_use_id: "c3" },
        TEXT("Hurry"),
        TEXT("Well?"),
      ],
    },
  ]);
});

Deno.test("thinking goes back as it came, in its place, before the calls", () => {
  const format = "anthropic-claude-v1";
  const content = (reasoning_details: Json, more: JsonObject = {}) => {
    const list = turns([
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: "Let me see",
        reasoning_content: "not signed",
        reasoning_details,
        tool_calls: [CALL("c1", "{}"), CALL("c2", "{}")],
        ...more,
      },
      { role: "tool", tool_call_id: "c1", content: "x" },
    ]) as { content: JsonObject[] }[];
    return list[1]?.content.map(({ type, id, thinking, data, signature }) =>
      [type, id ?? thinking ?? data, signature].filter((value) => value !== undefined).join(" ")
    );
  };
  assert.deepEqual(
    content([
      { type: "reasoning.text", text: "a", signature: "s1", format, index: 0 },
      { type: "reasoning.encrypted", data: "opaque", format, index: 2 },
      { type: "reasoning.text", text: "", signature: "s2", format, index: 4 },
    ]),
    [
      "thinking a s1",
      "text",
      "redacted_thinking opaque",
      "tool_use c1",
      "thinking  s2",
      "tool_use c2",
    ],
  );
  assert.deepEqual(
    content([
      { type: "reasoning.text", text: "a", index: 0, format },
      { type: "reasoning.text", text: "b", index: 0, format },
      { type: "reasoning.text", signature: "s", index: 0, format },
      { type: "reasoning.text", text: "unsigned", index: 1, format },
      { type: "reasoning.encrypted", data: "other", format: "google-gemini-v1" },
      { type: "reasoning.summary", summary: "x", format },
    ]),
    ["thinking ab s", "text", "tool_use c1", "tool_use c2"],
  );
  assert.deepEqual(content("nonsense"), ["text", "tool_use c1", "tool_use c2"]);
});
