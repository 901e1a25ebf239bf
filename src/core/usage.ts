import { isJsonObject, type Json } from "./json.ts";

/** Tokens of one or more model calls, as providers report them. */
export interface Usage {
  /** All input tokens, cached ones included. */
  promptTokens: number;
  /** All output tokens, reasoning included. */
  completionTokens: number;
  totalTokens: number;
  /** Input tokens read from the provider's prompt cache. */
  cachedTokens: number;
  /** Input tokens written to the provider's prompt cache; left out when there are none. */
  cacheWriteTokens?: number;
  /** Output tokens spent on reasoning. */
  reasoningTokens: number;
}

/** No tokens at all. */
export const NO_USAGE: Readonly<Usage> = Object.freeze({
  promptTokens: 0,
  completionTokens: 0,
  totalTokens: 0,
  cachedTokens: 0,
  reasoningTokens: 0,
});

/** Tokens as an event or a row has them; what is not there counts as none. */
export function readUsage(value: Json | undefined): Usage {
  const said = isJsonObject(value) ? value : {};
  const fields = Object.keys(NO_USAGE).map((field) => [field, Number(said[field] ?? 0)]);
  return Object.fromEntries(fields) as Usage;
}

/** Field-wise sum. */
export function addUsage(a: Usage, b: Usage): Usage {
  const written = (a.cacheWriteTokens ?? 0) + (b.cacheWriteTokens ?? 0);
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    totalTokens: a.totalTokens + b.totalTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    ...(written === 0 ? {} : { cacheWriteTokens: written }),
  };
}
