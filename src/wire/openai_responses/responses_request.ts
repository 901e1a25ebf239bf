import { HubError } from "../../core/error.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { FunctionDefinition, ModelMessage, ToolChoice } from "../../core/model.ts";
import { MAX_CHAT_MESSAGES, MAX_CHAT_TOOLS } from "../../core/limits.ts";
import { assertCount, member } from "../chat_fields.ts";
import { type ChatRequestTarget, encodeChatRequest } from "../openai_chat/encode_request.ts";
import { wrongType } from "../openai_chat/scan_request.ts";
import { decodeInput } from "./decode_input.ts";
import {
  type DecodedTools,
  decodeToolChoice,
  decodeTools,
  joinTools,
  objectsOf,
} from "./decode_tools.ts";
import { readSettings, type RequestSettings } from "./request_fields.ts";

/** A Responses request that a chat can carry. */
export interface TranslatedRequest {
  settings: RequestSettings;
  tools: DecodedTools;
  messages: ModelMessage[];
  definitions: FunctionDefinition[];
  toolChoice?: ToolChoice;
}

/**
 * Reads a whole request. `items` are all that the model is to read, those of earlier responses included. Throws
 * `invalid_request` naming what no chat can carry: nothing is dropped in silence.
 */
export function translateRequest(
  body: JsonObject,
  items: readonly JsonObject[],
): TranslatedRequest {
  const settings = readSettings(body);
  assertCount(items, "input", MAX_CHAT_MESSAGES);
  const input = decodeInput(items);
  const given = objectsOf(body["tools"], "tools");
  assertCount(given, "tools", MAX_CHAT_TOOLS);
  let tools = decodeTools(given);
  for (const { tools: more, param } of input.tools) {
    tools = joinTools(tools, decodeTools(more, param));
  }
  const instructions = instructionsOf(body);
  const messages: ModelMessage[] = instructions === null
    ? input.messages
    : [{ role: "system", text: instructions }, ...input.messages];
  if (messages.length === 0) {
    throw new HubError("invalid_request", "The request has no input", { param: "input" });
  }
  return { settings, tools, messages, ...decodeToolChoice(member(body, "tool_choice"), tools) };
}

function instructionsOf(body: JsonObject): string | null {
  const instructions: Json = member(body, "instructions");
  if (instructions === null || instructions === "") return null;
  if (typeof instructions === "string") return instructions;
  throw wrongType("instructions", instructions, "text");
}

/** The chat request for a target, streamed or not. */
export function toChatRequest(
  { settings, messages, definitions, toolChoice }: TranslatedRequest,
  { target, stream }: { target: ChatRequestTarget; stream: boolean },
): JsonObject {
  const { showEncrypted: _shown, ...rest } = settings;
  const chat = encodeChatRequest({
    ...rest,
    messages,
    tools: definitions,
    ...(toolChoice === undefined ? {} : { toolChoice }),
  }, target);
  if (stream) return chat;
  const { stream_options: _options, ...whole } = chat;
  return { ...whole, stream: false };
}
