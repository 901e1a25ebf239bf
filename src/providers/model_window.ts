import { type Static, Type } from "@sinclair/typebox";
import type { ModelWindow } from "../core/tokenizer.ts";
import type { Target } from "./target.ts";
import type { FindTokenizer } from "./tokenizer/create_tokenizers.ts";
import table from "./windows.json" with { type: "json" };

/** The vendored windows of models, in tokens: when they were read, where, and by kind of provider and model. */
export const WindowTable = Type.Object({
  asOf: Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}$" }),
  source: Type.String({ pattern: "^https://" }),
  windows: Type.Record(Type.String(), Type.Record(Type.String(), Type.Integer({ minimum: 1024 }))),
}, { additionalProperties: false });
export type WindowTable = Static<typeof WindowTable>;

/** The table as it is shipped; a test holds it to its schema. */
export const WINDOW_TABLE: WindowTable = table;

/** Of models that nobody knows. */
export const DEFAULT_WINDOW_TOKENS = 131_072;
const MOST_BUFFER_TOKENS = 8192;
const BUFFER_SHARE = 16;
/** An answer without a limit is never taken for more than this share of the window. */
const OUTPUT_SHARE = 4;

/** The window of a target, for answers of `maxOutputTokens` or, where nobody has set a limit, of an assumed length. */
export function windowOf(
  { provider, model, kind = "", override }: Pick<Target, "provider" | "model" | "override"> & {
    kind?: string;
  },
  options: {
    findTokenizer: FindTokenizer;
    maxOutputTokens: number | undefined;
    assumedOutputTokens: number;
  },
): ModelWindow {
  const known = WINDOW_TABLE.windows[kind];
  const listed = known !== undefined && Object.hasOwn(known, model) ? known[model] : undefined;
  const contextTokens = override.contextWindow ?? listed ?? DEFAULT_WINDOW_TOKENS;
  const limit = options.maxOutputTokens ?? override.maxOutputTokens;
  const buffer = Math.min(MOST_BUFFER_TOKENS, Math.floor(contextTokens / BUFFER_SHARE));
  return {
    provider,
    model,
    contextTokens,
    outputTokens: limit ??
      Math.min(options.assumedOutputTokens, Math.floor(contextTokens / OUTPUT_SHARE)),
    bufferTokens: override.contextBuffer ?? buffer,
    tokenizer: options.findTokenizer(override.tokenizer ?? tokenizerOf(kind, model)),
  };
}

/** The tokenizer of a model that none is configured for: by its provider, else by its name. */
export function tokenizerOf(kind: string, model: string): string {
  if (kind === "anthropic" || /(^|\/)claude/i.test(model)) return "anthropic";
  if (kind === "google" || /(^|\/)(gemini|gemma)/i.test(model)) return "gemini";
  const name = model.slice(model.lastIndexOf("/") + 1);
  return kind === "openai" || /^(gpt-|chatgpt|o[1-9](-|$))/.test(name)
    ? `tiktoken:${name}`
    : "heuristic";
}
