import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../../src/core/error.ts";
import type { JsonObject } from "../../../src/core/json.ts";
import { GEMINI } from "../../../src/wire/gemini/gemini_dialect.ts";
import { at } from "../../support/at.ts";
import { property } from "../../support/property.ts";
import { choicesOf, chunksOf, FACTS } from "../dialect_answers.ts";

const encoder = new TextEncoder();

const frame = (value: object) => `data: ${JSON.stringify(value)}\r\n\r\n`;
const partFrame = (...parts: JsonObject[]) => frame({ candidates: [{ content: { parts } }] });
const endFrame = (finishReason: string) => frame({ candidates: [{ finishReason }] });

const stream = (text: string, cuts?: number[]) => chunksOf(GEMINI, text, cuts);
const whole = (native: JsonObject) => GEMINI.decodeAnswer(native, FACTS);
const candidate = (parts: JsonObject[], finishReason = "STOP"): JsonObject => ({
  candidates: [{ content: { role: "model", parts }, finishReason, index: 0 }],
});

const RICH = ": hi\r\n\r\n" +
  partFrame({ text: "Thin", thought: true }) +
  partFrame({ text: "king", thought: true, thoughtSignature: "A" }) +
  "data: {broken\r\n\r\n" +
  partFrame({ text: "Hé 👋🏽" }, {
    functionCall: { name: "f", args: { a: "é" } },
    thoughtSignature: "S",
  }) +
  partFrame({ functionCall: { id: "own", name: "g" } }) +
  frame({
    candidates: [{ content: { parts: [{ text: "" }] }, finishReason: "STOP" }],
    usageMetadata: {
      promptTokenCount: 10,
      cachedContentTokenCount: 4,
      toolUsePromptTokenCount: 1,
      candidatesTokenCount: 5,
      thoughtsTokenCount: 3,
    },
  });

Deno.test("thoughts, text, calls and their signatures, then the end and the usage", () => {
  const { chunks, done } = stream(RICH);
  assert.equal(done, true);
  const deltas = choicesOf(chunks).map(({ delta }) => delta);
  const format = "google-gemini-v1";
  assert.deepEqual(deltas, [
    { role: "assistant", content: "" },
    { reasoning_content: "Thin" },
    { reasoning_content: "king" },
    { reasoning_details: [{ type: "reasoning.text", text: "king", signature: "A", format }] },
    { content: "Hé 👋🏽" },
    {
      tool_calls: [{
        index: 0,
        id: "call_1_0",
        type: "function",
        function: { name: "f", arguments: '{"a":"é"}' },
        extra_content: { google: { thought_signature: "S" } },
      }],
    },
    {
      reasoning_details: [
        { type: "reasoning.encrypted", data: "S", id: "call_1_0", tool_call_index: 0, format },
      ],
    },
    {
      tool_calls: [{
        index: 1,
        id: "own",
        type: "function",
        function: { name: "g", arguments: "{}" },
      }],
    },
    {},
  ]);
  assert.equal(choicesOf(chunks).at(-1)?.["finish_reason"], "tool_calls");
  assert.deepEqual(chunks.at(-1)?.["usage"], {
    prompt_tokens: 11,
    completion_tokens: 8,
    total_tokens: 19,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 3 },
  });
});

property(
  "a stream cut anywhere gives the same chunks",
  fc.array(fc.nat({ max: encoder.encode(RICH).length }), { maxLength: 12 }),
  (cuts) => assert.deepEqual(stream(RICH, cuts), stream(RICH)),
);

Deno.test("a stream that does not say why it ends is not done and invents no end", () => {
  const { chunks, done } = stream(partFrame({ text: "half" }));
  assert.equal(done, false);
  assert.ok(choicesOf(chunks).every(({ finish_reason }) => finish_reason === null));
});

Deno.test("an error in the stream is the last that comes of it", () => {
  const error = frame({ error: { code: 503, message: "Overloaded", status: "UNAVAILABLE" } });
  const { chunks, done } = stream(partFrame({ text: "a" }) + error + endFrame("STOP"));
  assert.equal(done, false);
  assert.deepEqual(chunks.at(-1), {
    error: { message: "Overloaded", type: "server_error", param: null, code: "unavailable" },
  });
});

Deno.test("reasons for an end", () => {
  const reason = (finishReason: string) =>
    at(whole(candidate([{ text: "x" }], finishReason)), "choices", 0, "finish_reason");
  assert.equal(reason("STOP"), "stop");
  assert.equal(reason("MAX_TOKENS"), "length");
  assert.equal(reason("CONTINUATION"), "length");
  for (const blocked of ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "OTHER"]) {
    assert.equal(reason(blocked), "content_filter");
  }
  assert.equal(reason("SOMETHING_NEW"), "something_new");
  const calls = candidate([{ functionCall: { name: "f" } }], "MAX_TOKENS");
  assert.equal(at(whole(calls), "choices", 0, "finish_reason"), "length");
});

Deno.test("an answer that the model spoilt is a failure that may be tried again", () => {
  assert.throws(
    () => whole(candidate([], "MALFORMED_FUNCTION_CALL")),
    (error) => error instanceof HubError && error.kind.retryable,
  );
  const { chunks, done } = stream(endFrame("MALFORMED_FUNCTION_CALL"));
  assert.equal(done, false);
  assert.equal(chunks.length, 1);
  assert.ok("error" in (chunks[0] ?? {}));
  assert.throws(() => whole({}), /does not say why it ended/);
});

Deno.test("a blocked prompt is a refusal", () => {
  const native = {
    promptFeedback: { blockReason: "SAFETY" },
    usageMetadata: { promptTokenCount: 3 },
  };
  const choice = at(whole(native), "choices", 0);
  assert.equal(at(choice, "finish_reason"), "content_filter");
  assert.match(String(at(choice, "message", "refusal")), /SAFETY/);
  assert.equal(at(choice, "message", "content"), null);
  const { chunks, done } = stream(frame(native));
  assert.equal(done, true);
  assert.equal(choicesOf(chunks).at(-1)?.["finish_reason"], "content_filter");
});

Deno.test("images in an answer are data URLs", () => {
  const native = candidate([{ inlineData: { mimeType: "image/png", data: "QQ==" } }]);
  assert.deepEqual(at(whole(native), "choices", 0, "message", "images"), [
    { type: "image_url", image_url: { url: "data:image/png;base64,QQ==" } },
  ]);
});

Deno.test("errors keep their words and get OpenAI's codes", () => {
  const error = (status: string, message = "m", details: JsonObject[] = []) => ({
    error: { code: 400, message, status, details },
  });
  const code = (native: unknown, status = 400) => GEMINI.decodeError(native, status).code;
  assert.equal(code(error("NOT_FOUND"), 404), "model_not_found");
  assert.equal(code([error("RESOURCE_EXHAUSTED")], 429), "rate_limit_exceeded");
  assert.equal(code(error("INVALID_ARGUMENT")), "invalid_argument");
  const long = "The input token count (9) exceeds the maximum number of tokens allowed (1).";
  assert.equal(code(error("INVALID_ARGUMENT", long)), "context_length_exceeded");
  assert.deepEqual(GEMINI.decodeError("<html>", 502), {
    message: "Gemini answered 502",
    type: "server_error",
    param: null,
    code: null,
  });
  const type = "type.googleapis.com/google.rpc.ErrorInfo";
  const bad = error("INVALID_ARGUMENT", "API key not valid", [
    { "@type": type, reason: "API_KEY_INVALID" },
  ]);
  assert.deepEqual(GEMINI.errorFacts?.(bad), { status: 401 });
  assert.equal(code(bad), "invalid_api_key");
  const wait = error("RESOURCE_EXHAUSTED", "slow", [
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "33.6s" },
  ]);
  assert.deepEqual(GEMINI.errorFacts?.([wait]), { retryAfterSeconds: 34 });
  assert.deepEqual(GEMINI.errorFacts?.("text"), {});
});
