import { HubError } from "../core/error.ts";
import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import { MAX_CHAT_MESSAGES, MAX_CHAT_TOOLS } from "../core/limits.ts";

/** The refusal of a request that a dialect cannot carry. */
export function refusal(param: string, message: string): HubError {
  return new HubError("invalid_request", message, { param });
}

/** The member, with null for a member that is missing. */
export function member(object: JsonObject, name: string): Json {
  return object[name] ?? null;
}

/** Fields that steer the transport, or are notes for OpenAI's own books: without them the answer is the same. */
const BOOKKEEPING: ReadonlySet<string> = new Set([
  "model",
  "stream",
  "stream_options",
  "store",
  "user",
  "metadata",
  "prompt_cache_key",
  "prompt_cache_retention",
  "safety_identifier",
  "parallel_tool_calls",
  "prediction",
]);

/** Whether a field says what would hold without it. */
function isNeutral(name: string, value: Json): boolean {
  if (value === null || value === false) return true;
  if (name === "n") return value === 1;
  if (name === "modalities") return JSON.stringify(value) === '["text"]';
  if (name === "service_tier") return value === "auto" || value === "default";
  if (name === "top_logprobs" || name.endsWith("_penalty")) return value === 0;
  if (name === "verbosity") return value === "medium";
  if (Array.isArray(value)) return value.length === 0;
  return isJsonObject(value) && Object.keys(value).length === 0;
}

/**
 * Refuses a request with a field that is neither in `carried`, nor bookkeeping, nor saying what would hold anyway.
 * `provider` is who cannot do it, as the message names it.
 */
export function checkFields(
  chat: JsonObject,
  { carried, provider }: { carried: ReadonlySet<string>; provider: string },
): void {
  for (const [name, value] of Object.entries(chat)) {
    if (carried.has(name) || BOOKKEEPING.has(name) || isNeutral(name, value)) continue;
    const what = name === "n" ? "more than one choice" : name;
    throw refusal(name, `${provider} has no equivalent of ${what}; leave it out for this model`);
  }
}

/** The messages of a request. */
export function messagesOf(chat: JsonObject): JsonObject[] {
  const { messages } = chat;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw refusal("messages", "messages must be a list with at least one message");
  }
  assertCount(messages, "messages", MAX_CHAT_MESSAGES);
  return messages.map((message, index) => {
    if (isJsonObject(message)) return message;
    throw refusal(`messages[${index}]`, `messages[${index}] must be an object`);
  });
}

/** Refuses a list of a request that is too long to be translated. */
export function assertCount({ length }: readonly unknown[], param: string, most: number): void {
  if (length > most) throw refusal(param, `${param} has ${length} entries, wanted at most ${most}`);
}

/** A message's content as parts; text is one part. */
export function partsOf(content: Json | undefined, param: string): JsonObject[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (Array.isArray(content) && content.every(isJsonObject)) return content;
  throw refusal(param, `${param} must be text or a list of parts`);
}

/** The text of a part that is text or a refusal; null for another part. */
export function textOfPart(part: JsonObject): string | null {
  if (part["type"] !== "text" && part["type"] !== "refusal") return null;
  const text = part[part["type"]];
  return typeof text === "string" ? text : "";
}

/** The texts of a content that can be nothing else. */
export function textOnly(content: Json | undefined, param: string): string {
  return partsOf(content, param).map((part, index) => {
    const text = textOfPart(part);
    if (text === null) {
      throw refusal(`${param}[${index}]`, `${param}[${index}] must be text for this model`);
    }
    return text;
  }).filter((text) => text !== "").join("\n");
}

/** The address of an `image_url`, `video_url`, `input_audio` or `file` part, and what it says of its type. */
export function mediaOf(
  part: JsonObject,
  param: string,
): { url: string; mediaType: string | null } {
  const type = String(part["type"]);
  const value = part[type];
  const inner: JsonObject = isJsonObject(value) ? value : {};
  if (type === "input_audio" && typeof inner["data"] === "string") {
    const format = inner["format"] === "mp3" ? "mpeg" : String(inner["format"] ?? "wav");
    return { url: `data:audio/${format};base64,${inner["data"]}`, mediaType: `audio/${format}` };
  }
  const url = type === "file"
    ? inner["file_data"]
    : typeof value === "string"
    ? value
    : inner["url"];
  if (typeof url === "string" && url !== "") {
    return { url, mediaType: readDataUrl(url)?.mediaType ?? null };
  }
  const wanted = type === "file" ? "file_data: a stored file of OpenAI is not here" : "a URL";
  throw refusal(param, `${param} must bring ${wanted}`);
}

/** The parts of a base64 `data:` URL; null for any other URL. */
export function readDataUrl(url: string): { mediaType: string; data: string } | null {
  const comma = url.slice(0, 300).indexOf(",");
  if (comma < 0 || !/^data:/i.test(url)) return null;
  const [mediaType = "", ...parameters] = url.slice("data:".length, comma).split(";");
  if (parameters.at(-1)?.trim().toLowerCase() !== "base64") return null;
  return { mediaType: mediaType.trim().toLowerCase(), data: url.slice(comma + 1) };
}

/** A tool call of an assistant message. */
export interface ChatCall {
  id: string;
  name: string;
  arguments: JsonObject;
  /** The call as it came. */
  wire: JsonObject;
}

/** The tool calls of an assistant message. Arguments that are no object, which a model may have sent, stand in one. */
export function callsOf(message: JsonObject, param: string): ChatCall[] {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return [];
  return calls.map((wire, index) => {
    const fn = isJsonObject(wire) ? wire["function"] : undefined;
    if (!isJsonObject(wire) || !isJsonObject(fn) || typeof fn["name"] !== "string") {
      throw refusal(`${param}[${index}]`, `${param}[${index}] must be a call of a function`);
    }
    const text = fn["arguments"];
    return {
      id: typeof wire["id"] === "string" ? wire["id"] : "",
      name: fn["name"],
      arguments: isJsonObject(text) ? text : parseArguments(typeof text === "string" ? text : ""),
      wire,
    };
  });
}

function parseArguments(text: string): JsonObject {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {
    // The text itself is all there is.
  }
  return { invalid_arguments: text };
}

/** A function that the model may call. */
export interface ChatTool {
  name: string;
  description: string;
  parameters: JsonSchema | null;
  strict: boolean;
}

/** The functions of a request; other kinds of tool are refused. */
export function toolsOf(chat: JsonObject): ChatTool[] {
  const tools = chat["tools"];
  if (!Array.isArray(tools)) return [];
  assertCount(tools, "tools", MAX_CHAT_TOOLS);
  return tools.map((tool, index) => {
    const fn = isJsonObject(tool) && tool["type"] === "function" ? tool["function"] : null;
    if (!isJsonObject(fn) || typeof fn["name"] !== "string") {
      throw refusal(`tools[${index}]`, `tools[${index}] must be a function for this model`);
    }
    return {
      name: fn["name"],
      description: typeof fn["description"] === "string" ? fn["description"] : "",
      parameters: isJsonObject(fn["parameters"]) ? fn["parameters"] : null,
      strict: fn["strict"] === true,
    };
  });
}

/** What `tool_choice` asks for; `names` are the functions that may be called, null for all. */
export interface ChatToolChoice {
  mode: "auto" | "none" | "required";
  names: string[] | null;
}

/** Reads every form of `tool_choice`. */
export function toolChoiceOf(chat: JsonObject): ChatToolChoice {
  const choice = member(chat, "tool_choice");
  if (choice === null) return { mode: "auto", names: null };
  if (choice === "auto" || choice === "none" || choice === "required") {
    return { mode: choice, names: null };
  }
  if (isJsonObject(choice) && choice["type"] === "function") {
    const fn = choice["function"];
    const name = isJsonObject(fn) ? fn["name"] : choice["name"];
    if (typeof name === "string") return { mode: "required", names: [name] };
  }
  const allowed = isJsonObject(choice) && choice["type"] === "allowed_tools"
    ? choice["allowed_tools"]
    : null;
  if (isJsonObject(allowed)) {
    const mode = allowed["mode"] === "required" ? "required" : "auto";
    return { mode, names: toolsOf(allowed).map(({ name }) => name) };
  }
  throw refusal("tool_choice", "tool_choice must be auto, none, required or name functions");
}

/** What `response_format` asks for: JSON, with a schema or null, held to it when strict; null for text. */
export function responseFormatOf(
  chat: JsonObject,
): { schema: JsonSchema | null; strict: boolean } | null {
  const format = member(chat, "response_format");
  if (format === null) return null;
  const type = isJsonObject(format) ? format["type"] : null;
  if (type === "text") return null;
  if (type === "json_object") return { schema: null, strict: false };
  const spec = isJsonObject(format) && type === "json_schema" ? format["json_schema"] : null;
  if (isJsonObject(spec)) {
    return {
      schema: isJsonObject(spec["schema"]) ? spec["schema"] : null,
      strict: spec["strict"] === true,
    };
  }
  throw refusal("response_format", "response_format must be text, json_object or json_schema");
}

/** `stop` as a list. */
export function stopsOf(chat: JsonObject): Json[] | null {
  const stop = member(chat, "stop");
  if (stop === null) return null;
  return Array.isArray(stop) ? stop : [stop];
}

/** The bound of output, whichever field says it. */
export function maxTokensOf(chat: JsonObject): Json {
  return member(chat, "max_completion_tokens") ?? member(chat, "max_tokens");
}

/** The members that are not null. */
export function present(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}
