import assert from "node:assert/strict";
import fc from "fast-check";
import { costMicros, mostItMayCost, type Price } from "../../src/core/cost.ts";
import { addUsage, NO_USAGE, type Usage } from "../../src/core/usage.ts";
import { costOf } from "../../src/providers/target.ts";
import { readUsage } from "../../src/wire/openai_chat/chat_usage.ts";
import { property } from "../support/property.ts";

const SONNET: Price = {
  inputPerMillion: 3,
  cacheWritePerMillion: 3.75,
  cachedInputPerMillion: 0.3,
  outputPerMillion: 15,
};
const MINI: Price = { inputPerMillion: 0.25, cachedInputPerMillion: 0.025, outputPerMillion: 2 };

/** Bills worked out by hand: what a provider reports, and what it costs in millionths of a dollar. */
const INVOICES: { what: string; usage: object; price: Price | undefined; micros: number | null }[] =
  [
    {
      what: "fresh input and output",
      usage: { prompt_tokens: 1000, completion_tokens: 200 },
      price: SONNET,
      micros: 3000 + 3000,
    },
    {
      what: "a cache read",
      usage: {
        prompt_tokens: 10_000,
        completion_tokens: 100,
        prompt_tokens_details: { cached_tokens: 9000 },
      },
      price: SONNET,
      micros: 1000 * 3 + 2700 + 1500,
    },
    {
      what: "a cache write",
      usage: {
        prompt_tokens: 10_000,
        completion_tokens: 0,
        prompt_tokens_details: { cache_write_tokens: 8000 },
      },
      price: SONNET,
      micros: 2000 * 3 + 30_000,
    },
    {
      what: "read and written in one call",
      usage: {
        prompt_tokens: 10_000,
        completion_tokens: 10,
        prompt_tokens_details: { cached_tokens: 4000, cache_write_tokens: 5000 },
      },
      price: SONNET,
      micros: 3000 + 1200 + 18_750 + 150,
    },
    {
      what: "reasoning at the price of output",
      usage: {
        prompt_tokens: 100,
        completion_tokens: 1000,
        completion_tokens_details: { reasoning_tokens: 900 },
      },
      price: MINI,
      micros: 25 + 2000,
    },
    {
      what: "reasoning at a price of its own",
      usage: {
        prompt_tokens: 100,
        completion_tokens: 1000,
        completion_tokens_details: { reasoning_tokens: 900 },
      },
      price: { ...MINI, reasoningPerMillion: 0.5 },
      micros: 25 + 200 + 450,
    },
    {
      what: "a fraction of a millionth, rounded up once",
      usage: {
        prompt_tokens: 1,
        completion_tokens: 0,
        prompt_tokens_details: { cached_tokens: 1 },
      },
      price: MINI,
      micros: 1,
    },
    {
      what: "a sum that binary fractions get wrong",
      usage: { prompt_tokens: 10, completion_tokens: 0 },
      price: { inputPerMillion: 1.1, outputPerMillion: 0 },
      micros: 11,
    },
    {
      what: "more cached than there is",
      usage: {
        prompt_tokens: 10,
        completion_tokens: 0,
        prompt_tokens_details: { cached_tokens: 99 },
      },
      price: SONNET,
      micros: 3,
    },
    {
      what: "nothing used",
      usage: { prompt_tokens: 0, completion_tokens: 0 },
      price: MINI,
      micros: 0,
    },
    {
      what: "a model of the house, which costs nothing",
      usage: { prompt_tokens: 1000, completion_tokens: 1000 },
      price: { inputPerMillion: 0, outputPerMillion: 0 },
      micros: 0,
    },
    {
      what: "an unknown price, which is not 0",
      usage: { prompt_tokens: 1000, completion_tokens: 1000 },
      price: undefined,
      micros: null,
    },
  ];

for (const { what, usage, price, micros } of INVOICES) {
  Deno.test(`invoice: ${what}`, () => {
    const read = readUsage(usage);
    assert.ok(read !== null);
    assert.equal(costOf(read, price), micros);
  });
}

const tokens = fc.integer({ min: 0, max: 1e9 });
const perMillion = fc.integer({ min: 0, max: 200_000_000 }).map((parts) => parts / 1e6);
const prices: fc.Arbitrary<Price> = fc.record({
  inputPerMillion: perMillion,
  outputPerMillion: perMillion,
  cachedInputPerMillion: perMillion,
  cacheWritePerMillion: perMillion,
  reasoningPerMillion: perMillion,
}, { requiredKeys: ["inputPerMillion", "outputPerMillion"] });
const usages: fc.Arbitrary<Usage> = fc.record({
  promptTokens: tokens,
  completionTokens: tokens,
  totalTokens: tokens,
  cachedTokens: tokens,
  reasoningTokens: tokens,
  cacheWriteTokens: tokens,
});

property(
  "no usage costs more than the most it may cost",
  fc.tuple(usages, prices),
  ([usage, price]) => {
    const { promptTokens, completionTokens: outputTokens } = usage;
    const cost = costMicros(usage, price);
    assert.ok(Number.isInteger(cost) && cost >= 0);
    assert.ok(cost <= mostItMayCost({ promptTokens, outputTokens }, price));
  },
);

property(
  "more tokens never cost less",
  fc.tuple(usages, tokens, prices),
  ([usage, more, price]) => {
    const output = { ...usage, completionTokens: usage.completionTokens + more };
    assert.ok(costMicros(output, price) >= costMicros(usage, price));
    const input = { ...usage, promptTokens: usage.promptTokens + more };
    const plain = {
      inputPerMillion: price.inputPerMillion,
      outputPerMillion: price.outputPerMillion,
    };
    assert.ok(costMicros(input, plain) >= costMicros(usage, plain));
  },
);

property(
  "a sum is at most a micro dearer in parts",
  fc.tuple(usages, usages, prices),
  ([a, b, price]) => {
    const proper = (
      { cachedTokens, reasoningTokens, cacheWriteTokens = 0, ...rest }: Usage,
    ): Usage => ({
      ...rest,
      promptTokens: rest.promptTokens + cachedTokens + cacheWriteTokens,
      completionTokens: rest.completionTokens + reasoningTokens,
      cachedTokens,
      reasoningTokens,
      cacheWriteTokens,
    });
    const [one, two] = [proper(a), proper(b)];
    const whole = costMicros(addUsage(one, two), price);
    const parts = costMicros(one, price) + costMicros(two, price);
    assert.ok(parts - whole === 0 || parts - whole === 1, `${parts} and ${whole}`);
  },
);

Deno.test("a sum of usages names cache writes only when there are some", () => {
  assert.deepEqual(addUsage(NO_USAGE, NO_USAGE), { ...NO_USAGE });
  assert.equal(addUsage({ ...NO_USAGE, cacheWriteTokens: 3 }, NO_USAGE).cacheWriteTokens, 3);
});
