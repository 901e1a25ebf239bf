import { parsePlainJson } from "../../core/large_json/json_in_steps.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";

/** What an image of usual size costs, and below it a page of a document with the bytes that it usually has. */
export const IMAGE_TOKENS = 1600;
const PAGE_TOKENS = 2000;
const PAGE_BYTES = 64 * 1024;
const encoder = new TextEncoder();

/** About how many tokens a Messages request has: one for four bytes of what the model reads. */
export async function estimateTokens(body: Uint8Array): Promise<number> {
  const request = await parsePlainJson(body) as JsonObject;
  const { system = null, messages = null, tools = null } = request;
  let media = 0;
  const text = JSON.stringify([system, messages, tools], function (name, value: unknown) {
    if (!isJsonObject(value) || name !== "source" || typeof value["data"] !== "string") {
      return value;
    }
    if (value["type"] !== "base64") return value;
    const isImage = String(value["media_type"]).startsWith("image/");
    media += isImage ? IMAGE_TOKENS : documentTokens(value["data"].length);
    return null;
  });
  return media + Math.ceil(encoder.encode(text).length / 4);
}

/** What a document of so many characters of base64 costs. */
export function documentTokens(characters: number): number {
  return Math.ceil(characters / PAGE_BYTES) * PAGE_TOKENS;
}
