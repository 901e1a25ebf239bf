import type { Usage } from "./usage.ts";

/** What a model's tokens cost, in US dollars per million: a dollar per million is a millionth of a dollar per token. */
export interface Price {
  inputPerMillion: number;
  outputPerMillion: number;
  /** Input read from the provider's prompt cache; as other input when left out. */
  cachedInputPerMillion?: number;
  /** Input written to the provider's prompt cache; as other input when left out. */
  cacheWritePerMillion?: number;
  /** Output spent on reasoning; as other output when left out. */
  reasoningPerMillion?: number;
}

/**
 * What bounds a call's cost before it is made: there is none (`free`); the tokens of its text, and those of its answer up
 * to a limit of the request's or an assumed one (`tokens`), or up to the model's own limit alone (`limit`); or nothing.
 */
export type CostBound = "free" | "tokens" | "limit" | "none";

/** Parts of a micro-dollar that prices are counted in: six decimals of a dollar per million tokens. */
const PARTS = 1_000_000n;

/** Cost in millionths of a US dollar, rounded up once, at the end. Integers all the way: no sum depends on its order. */
export function costMicros(usage: Usage, price: Price): number {
  const prompt = tokens(usage.promptTokens);
  const cached = least(tokens(usage.cachedTokens), prompt);
  const written = least(tokens(usage.cacheWriteTokens ?? 0), prompt - cached);
  const completion = tokens(usage.completionTokens);
  const reasoning = least(tokens(usage.reasoningTokens), completion);
  const { inputPerMillion: input, outputPerMillion: output } = price;
  const parts = (prompt - cached - written) * partsOf(input) +
    cached * partsOf(price.cachedInputPerMillion ?? input) +
    written * partsOf(price.cacheWritePerMillion ?? input) +
    (completion - reasoning) * partsOf(output) +
    reasoning * partsOf(price.reasoningPerMillion ?? output);
  return Number((parts + PARTS - 1n) / PARTS);
}

/** The most that a call of so many tokens may cost, whichever of its tokens are cached, written or thought. */
export function mostItMayCost(
  { promptTokens, outputTokens }: { promptTokens: number; outputTokens: number },
  price: Price,
): number {
  const { inputPerMillion: input, outputPerMillion: output } = price;
  return costMicros({
    promptTokens,
    completionTokens: outputTokens,
    totalTokens: promptTokens + outputTokens,
    cachedTokens: 0,
    reasoningTokens: 0,
  }, {
    inputPerMillion: Math.max(
      input,
      price.cachedInputPerMillion ?? 0,
      price.cacheWritePerMillion ?? 0,
    ),
    outputPerMillion: Math.max(output, price.reasoningPerMillion ?? 0),
  });
}

function partsOf(perMillion: number): bigint {
  return BigInt(Math.round(perMillion * Number(PARTS)));
}

function tokens(count: number): bigint {
  return BigInt(Math.max(0, Math.ceil(count)));
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** The sum of two costs; null when one of them is unknown: never too low. */
export function addCosts(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}
