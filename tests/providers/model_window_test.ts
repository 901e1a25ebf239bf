import assert from "node:assert/strict";
import { Value } from "@sinclair/typebox/value";
import {
  tokenizerOf,
  WINDOW_TABLE,
  windowOf,
  WindowTable,
} from "../../src/providers/model_window.ts";
import { createTokenizers } from "../../src/providers/tokenizer/create_tokenizers.ts";

const options = {
  findTokenizer: createTokenizers(),
  maxOutputTokens: undefined,
  assumedOutputTokens: 4096,
};

Deno.test("the table of windows keeps to its schema and is dated", () => {
  assert.deepEqual([...Value.Errors(WindowTable, WINDOW_TABLE)], []);
  assert.ok(Date.parse(WINDOW_TABLE.asOf) > Date.UTC(2026, 9, 1));
});

Deno.test("the operator's window wins over the table, the table over the default", () => {
  const of = (model: string, override = {}, kind = "openai") =>
    windowOf({ provider: "p", model, kind, override }, options);
  assert.equal(of("gpt-4").contextTokens, 8192);
  assert.equal(of("gpt-4", { contextWindow: 6000 }).contextTokens, 6000);
  assert.equal(of("constructor").contextTokens, 131_072);
  assert.equal(of("gpt-4", {}, "openai-compatible").contextTokens, 131_072);
});

Deno.test("answer and buffer: what is set, else shares that fit small windows too", () => {
  const of = (override: object, maxOutputTokens?: number) => {
    const { outputTokens, bufferTokens } = windowOf(
      { provider: "p", model: "m", override },
      { ...options, maxOutputTokens },
    );
    return [outputTokens, bufferTokens];
  };
  assert.deepEqual(of({}), [4096, 8192]);
  assert.deepEqual(of({ contextWindow: 4096 }), [1024, 256]);
  assert.deepEqual(of({ maxOutputTokens: 100, contextBuffer: 0 }), [100, 0]);
  assert.deepEqual(of({ maxOutputTokens: 100 }, 7), [7, 8192]);
});

Deno.test("tokenizers by provider, else by the model's name", () => {
  assert.equal(tokenizerOf("anthropic", "anything"), "anthropic");
  assert.equal(tokenizerOf("openrouter", "anthropic/claude-opus-4-8"), "anthropic");
  assert.equal(tokenizerOf("google", "x"), "gemini");
  assert.equal(tokenizerOf("openai", "o3"), "tiktoken:o3");
  assert.equal(tokenizerOf("openrouter", "openai/gpt-5-mini"), "tiktoken:gpt-5-mini");
  assert.equal(tokenizerOf("groq", "qwen/qwen3-32b"), "heuristic");
});
