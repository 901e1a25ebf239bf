import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { member, refusal } from "../chat_fields.ts";
import type { ModelTraits } from "./model_traits.ts";

/** Levels of `reasoning_effort`, with the tokens that models without levels get for them. */
const BUDGETS: Readonly<Record<string, number>> = {
  none: 0,
  minimal: 1024,
  low: 4096,
  medium: 8192,
  high: 16_384,
  xhigh: 24_576,
  max: 24_576,
};
const SMALLEST_BUDGET = 1024;

/** What the request says of thinking. */
export interface EncodedThinking {
  thinking: Json;
  effort: Json;
  /** Values of the `anthropic-beta` field that it needs. */
  betas: string[];
}

/**
 * `reasoning_effort` as the model takes it; a native `thinking` member wins. Models that think unasked are asked for the
 * text of it, and those that check what stands before it to drop what has lost its place instead of refusing.
 */
export function encodeThinking(
  chat: JsonObject,
  { traits, maxTokens, hasThinking, unthoughtCalls }: {
    traits: ModelTraits;
    maxTokens: Json;
    hasThinking: boolean;
    unthoughtCalls: boolean;
  },
): EncodedThinking {
  const level = readLevel(chat);
  const own = member(chat, "thinking");
  if (own !== null && !isJsonObject(own)) throw refusal("thinking", "thinking must be an object");
  const isOff = level === "none";
  const effort = level === null || (isOff && traits.off !== null) ? null : nearest(level, traits);
  if (own !== null) return { thinking: own, effort, betas: [] };
  if (traits.thinking === "budget") {
    const budget = level === null || unthoughtCalls ? null : budgetOf(level, maxTokens);
    return {
      thinking: budget === null ? null : { type: "enabled", budget_tokens: budget },
      effort,
      betas: [],
    };
  }
  if (isOff && traits.off !== null) return { thinking: { type: traits.off }, effort, betas: [] };
  if (level === null && !traits.thinksUnasked) return { thinking: null, effort, betas: [] };
  const thinking: JsonObject = { type: "adaptive", display: "summarized" };
  if (!traits.bindsThinking || !hasThinking) return { thinking, effort, betas: [] };
  return {
    thinking: { ...thinking, block_binding: { prefix_mismatch_behavior: "drop_block" } },
    effort,
    betas: ["thinking-binding-controls-2026-08-01"],
  };
}

function readLevel(chat: JsonObject): string | null {
  const level = member(chat, "reasoning_effort");
  if (level === null || (typeof level === "string" && level in BUDGETS)) return level;
  throw refusal(
    "reasoning_effort",
    `reasoning_effort must be one of ${Object.keys(BUDGETS).join(", ")}`,
  );
}

/** The level itself, or the highest known one below it. */
function nearest(level: string, { efforts }: ModelTraits): string | null {
  if (efforts.length === 0 || efforts.includes(level)) return efforts.length === 0 ? null : level;
  if (level === "xhigh" || level === "max") return "high";
  return efforts[0] ?? null;
}

/** A budget leaves a fifth of the output for the answer; null where there is no room to think. */
function budgetOf(level: string, maxTokens: Json): number | null {
  const wanted = BUDGETS[level] ?? 0;
  if (wanted === 0) return null;
  const room = typeof maxTokens === "number" ? maxTokens : Infinity;
  if (room <= SMALLEST_BUDGET) return null;
  return Math.max(SMALLEST_BUDGET, Math.min(wanted, Math.floor(room * 0.8)));
}
