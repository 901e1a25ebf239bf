import { Buffer } from "node:buffer";
import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import { parsePlainJson } from "../../core/large_json/json_in_steps.ts";
import type { ModelRequest } from "../../core/model.ts";
import { WorkStretch } from "../../core/next_turn.ts";
import { type ChatRequestTarget, encodeChatRequest } from "../openai_chat/encode_request.ts";
import { MARK } from "../openai_responses/reasoning_item.ts";
import { decodeMessages } from "./decode_messages.ts";
import { decodeToolChoice, decodeTools } from "./decode_tools.ts";
import { readSettings } from "./request_fields.ts";

/** Bytes that are searched between two turns of the event loop. */
const STRETCH_BYTES = 1024 * 1024;

/**
 * Reads a whole request that a chat is to carry. Throws `invalid_request` naming what it cannot: nothing is dropped in
 * silence.
 */
export async function translateRequest(body: Uint8Array): Promise<ModelRequest> {
  const request = await parse(body);
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
): Promise<Uint8Array> {
  const { stream_options: options, ...chat } = encodeChatRequest(request, target);
  const streamed = options === undefined ? chat : { ...chat, stream_options: options };
  return encodeJsonInSteps(stream ? streamed : { ...chat, stream: false });
}

/** The request without thinking and citations that the hub made of other providers' answers: Anthropic would refuse their signatures. */
export async function withoutPacked(body: Uint8Array): Promise<Uint8Array> {
  if (!await hasMark(body)) return body;
  const request = await parse(body);
  const { messages } = request;
  if (!Array.isArray(messages)) return body;
  const kept = messages.flatMap((message) => {
    if (!isJsonObject(message) || !Array.isArray(message["content"])) return [message];
    const content = message["content"].filter((block) => !isPacked(block)).map(withoutOwnCitations);
    return content.length === 0 ? [] : [{ ...message, content }];
  });
  return await encodeJsonInSteps({ ...request, messages: kept });
}

/** Whether anything in it may be of the hub's making. */
async function hasMark({ buffer, byteOffset, length }: Uint8Array): Promise<boolean> {
  const stretch = new WorkStretch(STRETCH_BYTES);
  for (let at = 0; at < length; at += STRETCH_BYTES) {
    // A mark may begin in one piece and end in the next.
    const size = Math.min(length - at, STRETCH_BYTES + MARK.length);
    if (Buffer.from(buffer, byteOffset + at, size).includes(MARK)) return true;
    await stretch.spend(size);
  }
  return false;
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

async function parse(body: Uint8Array): Promise<JsonObject> {
  const request = await parsePlainJson(body);
  if (isJsonObject(request)) return request;
  throw new HubError("invalid_request", "The request is no JSON object");
}
