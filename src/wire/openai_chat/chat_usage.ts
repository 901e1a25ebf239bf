import { isJsonObject } from "../../core/json.ts";
import type { Usage } from "../../core/usage.ts";

/** The `usage` member of an OpenAI answer or chunk as the hub counts it; null when there is none. */
export function readUsage(value: unknown): Usage | null {
  if (!isJsonObject(value)) return null;
  const prompt = count(value["prompt_tokens"]);
  const completion = count(value["completion_tokens"]);
  if (prompt === null && completion === null) return null;
  const detail = (group: string, name: string) => {
    const members = value[group];
    return isJsonObject(members) ? count(members[name]) ?? 0 : 0;
  };
  const written = detail("prompt_tokens_details", "cache_write_tokens");
  return {
    promptTokens: prompt ?? 0,
    completionTokens: completion ?? 0,
    totalTokens: count(value["total_tokens"]) ?? (prompt ?? 0) + (completion ?? 0),
    cachedTokens: detail("prompt_tokens_details", "cached_tokens") ||
      (count(value["prompt_cache_hit_tokens"]) ?? 0),
    reasoningTokens: detail("completion_tokens_details", "reasoning_tokens"),
    ...(written === 0 ? {} : { cacheWriteTokens: written }),
  };
}

/** No call has a trillion tokens; a larger number is a mistake that no column could hold. */
const MAX_TOKENS = 1e12;

function count(value: unknown): number | null {
  return typeof value === "number" && value >= 0 && value <= MAX_TOKENS ? Math.round(value) : null;
}
