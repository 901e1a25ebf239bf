import assert from "node:assert/strict";
import { Value } from "@sinclair/typebox/value";
import { KNOWN_PROVIDERS } from "../../src/config/known_providers.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { Usage } from "../../src/core/usage.ts";
import { costOf } from "../../src/providers/target.ts";
import { GEMINI } from "../../src/wire/gemini/gemini_dialect.ts";
import { readUsage } from "../../src/wire/openai_chat/chat_usage.ts";
import { listPrice, PRICE_TABLE, PriceTable } from "../../src/providers/price_table.ts";

Deno.test("the price table keeps to its schema, is dated, and names where each price was read", () => {
  assert.deepEqual([...Value.Errors(PriceTable, PRICE_TABLE)], []);
  const asOf = Date.parse(`${PRICE_TABLE.asOf}T00:00:00Z`);
  assert.ok(asOf > Date.UTC(2026, 9, 1) && Number.isFinite(asOf));
  for (const [kind, models] of Object.entries(PRICE_TABLE.prices)) {
    assert.ok(kind in PRICE_TABLE.sources, `${kind} has no source`);
    for (const [model, price] of Object.entries(models)) {
      const { inputPerMillion: input, outputPerMillion: output } = price;
      assert.ok(input > 0 && output >= input, model);
      assert.ok((price.cachedInputPerMillion ?? 0) <= input, model);
      assert.ok((price.cacheWritePerMillion ?? input) >= input, model);
      for (const number of Object.values(price)) {
        assert.equal(Math.round(number * 1e6) / 1e6, number);
      }
    }
  }
});

Deno.test("a list price holds at the provider's own address alone, and for names of the table alone", () => {
  const openai = { kind: "openai", baseUrl: "https://api.openai.com/v1" };
  assert.equal(listPrice(openai, "gpt-5-mini")?.outputPerMillion, 2);
  assert.equal(listPrice(openai, "gpt-5-mini-of-tomorrow"), undefined);
  assert.equal(listPrice(openai, "constructor"), undefined);
  assert.equal(listPrice({ ...openai, baseUrl: "http://127.0.0.1:1/v1" }, "gpt-5-mini"), undefined);
  assert.equal(
    listPrice({ kind: "openai-compatible", baseUrl: "http://x/v1" }, "gpt-4"),
    undefined,
  );
});

/** The usage of an answer of Gemini's own. */
function geminiUsage(usageMetadata: JsonObject): Usage | null {
  const facts = { id: "chatcmpl-1", created: 0, model: "m", includeUsage: true };
  const candidates = [{ content: { parts: [{ text: "Hi" }] }, finishReason: "STOP" }];
  return readUsage(GEMINI.decodeAnswer({ candidates, usageMetadata }, facts)["usage"]);
}

const CHAT = {
  prompt_tokens: 10_000,
  completion_tokens: 1000,
  total_tokens: 11_000,
  prompt_tokens_details: { cached_tokens: 8000 },
  completion_tokens_details: { reasoning_tokens: 600 },
};

/** Bills worked out by hand from what each provider's answer says: 8000 of 10,000 tokens from its cache, 600 of 1000 thought. */
const INVOICES: { kind: string; model: string; usage?: Usage | null; micros: number | null }[] = [
  { kind: "openai", model: "gpt-5-mini", micros: 2000 * 0.25 + 8000 * 0.025 + 1000 * 2 },
  { kind: "anthropic", model: "claude-haiku-4-5", micros: 2000 + 800 + 5000 },
  {
    kind: "google",
    model: "gemini-3.5-flash",
    usage: geminiUsage({
      promptTokenCount: 10_000,
      cachedContentTokenCount: 8000,
      candidatesTokenCount: 400,
      thoughtsTokenCount: 600,
      totalTokenCount: 11_000,
    }),
    micros: 3000 + 1200 + 9000,
  },
  { kind: "mistral", model: "mistral-medium-latest", micros: 3000 + 1200 + 7500 },
  { kind: "groq", model: "openai/gpt-oss-120b", micros: 300 + 600 + 600 },
  // No discount for what its cache knows.
  { kind: "together", model: "openai/gpt-oss-120b", micros: 1500 + 600 },
  { kind: "together", model: "moonshotai/Kimi-K3", micros: 6000 + 2400 + 15_000 },
  {
    kind: "fireworks",
    model: "accounts/fireworks/models/deepseek-v4p1-flash",
    micros: 600 + 48 + 1200,
  },
  { kind: "cerebras", model: "gpt-oss-120b", micros: 3500 + 750 },
  // What they cost depends on the time of day, or on the length of the prompt: nobody may guess.
  {
    kind: "deepseek",
    model: "deepseek-flash",
    usage: readUsage({
      prompt_tokens: 10_000,
      completion_tokens: 1000,
      prompt_cache_hit_tokens: 8000,
      prompt_cache_miss_tokens: 2000,
    }),
    micros: null,
  },
  { kind: "xai", model: "grok-4.3", micros: null },
  { kind: "google", model: "gemini-3.1-pro-preview", micros: null },
];

for (const { kind, model, usage = readUsage(CHAT), micros } of INVOICES) {
  Deno.test(`list price: ${kind}'s ${model}`, () => {
    const baseUrl = KNOWN_PROVIDERS.find(({ name }) => name === kind)?.baseUrl;
    assert.ok(usage !== null);
    assert.deepEqual([usage.promptTokens, usage.cachedTokens], [10_000, 8000]);
    assert.equal(costOf(usage, listPrice({ kind, baseUrl }, model)), micros);
  });
}

Deno.test("every provider that is known by its variable has prices, but those that nobody can put in the table", () => {
  const without = KNOWN_PROVIDERS.map(({ name }) => name).filter((name) =>
    !(name in PRICE_TABLE.prices)
  );
  assert.deepEqual(without, ["openrouter", "deepseek", "xai"]);
});
