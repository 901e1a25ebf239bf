import { parsePlainJson } from "../../core/large_json/json_in_steps.ts";
import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";

/** What an image of usual size costs, and below it a page of a document with the bytes that it usually has. */
export const IMAGE_TOKENS = 1600;
const PAGE_TOKENS = 2000;
const PAGE_BYTES = 64 * 1024;

/** About how many tokens a Messages request has: one for four bytes of what the model reads. */
export async function estimateTokens(body: Uint8Array): Promise<number> {
  const request = await parsePlainJson(body) as JsonObject;
  const { system = null, messages = null, tools = null } = request;
  const read: Json = [system, messages, tools];
  const media = takeMedia(read);
  const { length } = await encodeJsonInSteps(read);
  return media + Math.ceil(length / 4);
}

/** Takes images and documents out of a request, and gives what they cost. */
function takeMedia(request: Json): number {
  let media = 0;
  const waiting: Json[] = [request];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next)) {
      for (const item of next) waiting.push(item);
      continue;
    }
    for (const name of Object.keys(next)) {
      const value = next[name] ?? null;
      const tokens = name === "source" ? mediaTokens(value) : null;
      if (tokens === null) waiting.push(value);
      else {
        media += tokens;
        next[name] = null;
      }
    }
  }
  return media;
}

/** What a source of an image or a document costs; null for another one. */
function mediaTokens(source: Json): number | null {
  if (!isJsonObject(source) || source["type"] !== "base64") return null;
  const { data, media_type: type } = source;
  if (typeof data !== "string") return null;
  return String(type).startsWith("image/") ? IMAGE_TOKENS : documentTokens(data.length);
}

/** What a document of so many characters of base64 costs. */
export function documentTokens(characters: number): number {
  return Math.ceil(characters / PAGE_BYTES) * PAGE_TOKENS;
}
