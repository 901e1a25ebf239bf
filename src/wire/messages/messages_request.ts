import { Buffer } from "node:buffer";
import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ModelRequest } from "../../core/model.ts";
import { type ChatRequestTarget, encodeChatRequest } from "../openai_chat/encode_request.ts";
import { MARK } from "../openai_responses/reasoning_item.ts";
import { decodeMessages } from "./decode_messages.ts";
import { decodeToolChoice, decodeTools } from "./decode_tools.ts";
import { readSettings } from "./request_fields.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Reads a whole request that a chat is to carry. Throws `invalid_request` naming what it cannot: nothing is dropped in
 * silence.
 */
export function translateRequest(body: Uint8Array): ModelRequest {
  const request = parse(body);
  return {
    ...readSettings(request),
    messages: decodeMessages(request),
    tools: decodeTools(request),
    ...decodeToolChoice(request),
  };
}

/** The chat request for a target, streamed or not. */
export function toChatRequest(
  request: ModelRequest,
  { target, stream }: { target: ChatRequestTarget; stream: boolean },
): Uint8Array {
  const { stream_options: options, ...chat } = encodeChatRequest(request, target);
  const streamed = options === undefined ? chat : { ...chat, stream_options: options };
  return encoder.encode(JSON.stringify(stream ? streamed : { ...chat, stream: false }));
}

/** The request without thinking and citations that the hub made of other providers' answers: Anthropic would refuse their signatures. */
export function withoutPacked(body: Uint8Array): Uint8Array {
  const { buffer, byteOffset, length } = body;
  if (!Buffer.from(buffer, byteOffset, length).includes(MARK)) return body;
  const request = parse(body);
  const { messages } = request;
  if (!Array.isArray(messages)) return body;
  const kept = messages.flatMap((message) => {
    if (!isJsonObject(message) || !Array.isArray(message["content"])) return [message];
    const content = message["content"].filter((block) => !isPacked(block)).map(withoutOwnCitations);
    return content.length === 0 ? [] : [{ ...message, content }];
  });
  return encoder.encode(JSON.stringify({ ...request, messages: kept }));
}

/** The block without citations that the hub made of another provider's sources. */
function withoutOwnCitations(block: Json): Json {
  if (!isJsonObject(block) || !Array.isArray(block["citations"])) return block;
  const { citations, ...rest } = block;
  const kept = Array.isArray(citations) ? citations.filter((citation) => !isOwn(citation)) : [];
  return kept.length === 0 ? rest : { ...rest, citations: kept };
}

function isOwn(citation: Json): boolean {
  const index = isJsonObject(citation) ? citation["encrypted_index"] : null;
  return typeof index === "string" && index.startsWith(MARK);
}

function isPacked(block: JsonObject[string]): boolean {
  if (!isJsonObject(block)) return false;
  const { type, signature, data } = block;
  const packed = type === "thinking" ? signature : type === "redacted_thinking" ? data : null;
  return typeof packed === "string" && packed.startsWith(MARK);
}

function parse(body: Uint8Array): JsonObject {
  const request: unknown = JSON.parse(decoder.decode(body));
  if (isJsonObject(request)) return request;
  throw new HubError("invalid_request", "The request is no JSON object");
}
