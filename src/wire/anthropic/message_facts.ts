import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { toChatUsage } from "../chat_answer.ts";

/** `stop_reason` in chat completions' words. */
export const FINISH_REASONS: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  // A turn that the server broke off, and would go on with.
  pause_turn: "length",
  refusal: "content_filter",
};

/** What a refusal is explained with; null for a stop that is none. */
export function refusalText(reason: string, details: Json | undefined): string | null {
  if (reason !== "refusal") return null;
  const text = isJsonObject(details) ? details["explanation"] : null;
  return typeof text === "string" && text !== "" ? text : "The model refused to answer";
}

/** A later `usage` over an earlier one. Counts are cumulative, so none ever falls; null says nothing new. */
export function mergeUsage(before: JsonObject, after: Json | undefined): JsonObject {
  if (!isJsonObject(after)) return before;
  const merged = { ...before };
  for (const [name, value] of Object.entries(after)) {
    const known = merged[name];
    const isLess = typeof known === "number" && typeof value === "number" && value < known;
    if (value !== null && !isLess) merged[name] = value;
  }
  return merged;
}

/** A `usage` in chat completions' words, null for one without counts: cached and cache-written tokens are part of the prompt. */
export function readMessagesUsage(usage: Json | undefined): JsonObject | null {
  if (!isJsonObject(usage)) return null;
  const count = (name: string) => typeof usage[name] === "number" ? usage[name] : 0;
  if (!("input_tokens" in usage) && !("output_tokens" in usage)) return null;
  const cached = count("cache_read_input_tokens");
  const cacheWrite = count("cache_creation_input_tokens");
  const details = usage["output_tokens_details"];
  const thought = isJsonObject(details) ? details["thinking_tokens"] : undefined;
  return toChatUsage({
    prompt: count("input_tokens") + cached + cacheWrite,
    completion: count("output_tokens"),
    cached,
    cacheWrite,
    ...(typeof thought === "number" ? { reasoning: thought } : {}),
  });
}
