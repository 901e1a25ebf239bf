import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { UserContent } from "../core/model.ts";
import type { SamplingWish } from "../core/sampling.ts";
import { wellFormedText } from "../core/well_formed.ts";

const MAX_MESSAGES = 500;
const MAX_CHARS = 8 * 1024 * 1024;
const MAX_STOPS = 4;

/** What a server asks a model (`sampling/createMessage`), without a model of it. Throws an error that the server may read. */
export function readSampling(params: JsonObject): Omit<SamplingWish, "model"> {
  const { messages, systemPrompt, maxTokens, temperature, stopSequences } = params;
  if (params["tools"] !== undefined || params["toolChoice"] !== undefined) {
    throw new Error("The hub offers models without tools");
  }
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MAX_MESSAGES) {
    throw new Error(`Wanted are 1 to ${MAX_MESSAGES} messages`);
  }
  const chars = JSON.stringify(messages).length;
  if (chars > MAX_CHARS) {
    throw new Error(`The messages have ${chars} characters, wanted are ${MAX_CHARS} at most`);
  }
  const stops = Array.isArray(stopSequences)
    ? stopSequences.filter((stop) => typeof stop === "string").slice(0, MAX_STOPS)
    : [];
  return {
    systemPrompt: typeof systemPrompt === "string" ? wellFormedText(systemPrompt) : "",
    messages: messages.map(readMessage),
    maxTokens: typeof maxTokens === "number" && maxTokens > 0 ? Math.floor(maxTokens) : 1,
    ...typeof temperature === "number" ? { temperature } : {},
    extra: stops.length === 0 ? {} : { stop: stops },
  };
}

function readMessage(message: Json): SamplingWish["messages"][number] {
  if (!isJsonObject(message)) throw new Error("A message is no object");
  const { role, content = null } = message;
  const blocks = (Array.isArray(content) ? content : [content]).map(readBlock);
  if (role === "user") return { role, content: blocks };
  if (role !== "assistant") throw new Error("Wanted are messages of user or assistant");
  const texts = blocks.map((block) => {
    if (block.type === "text") return block.text;
    throw new Error("The hub takes nothing but text as the assistant's");
  });
  return { role, text: texts.join("\n") };
}

function readBlock(block: Json): UserContent {
  if (!isJsonObject(block)) throw new Error("A block of content is no object");
  const { type, text, data, mimeType } = block;
  if (type === "text" && typeof text === "string") return { type, text: wellFormedText(text) };
  const isImage = type === "image" && typeof data === "string" && typeof mimeType === "string";
  if (isImage && /^image\/[a-z0-9.+-]{1,50}$/i.test(mimeType) && /^[A-Za-z0-9+/]+=*$/.test(data)) {
    return { type, url: `data:${mimeType};base64,${data}`, mediaType: mimeType };
  }
  throw new Error("The hub takes text and images");
}
