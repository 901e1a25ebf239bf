import { createHash } from "node:crypto";
import type { Json, JsonObject } from "../../core/json.ts";
import type {
  AssistantContent,
  ModelMessage,
  ModelRequest,
  ModelToolResult,
  UserContent,
} from "../../core/model.ts";
import { type FailureMark, failureText, IS_ERROR, markedFailure } from "../tool_failure.ts";
import { THINKING_PARTS } from "./decode_stream.ts";

/** What differs between servers of this dialect, as far as requests go. */
export interface ChatRequestQuirks {
  /** Field for the output bound. */
  maxTokensField: "max_completion_tokens" | "max_tokens";
  /** Longest tool call id; 9 stands for exactly nine letters and digits. */
  toolCallIdLength: number;
  /** An assistant message must stand between tool results and a user message. */
  assistantAfterTools: boolean;
  /** Wants `reasoning_content` on every assistant message, empty where there is none. */
  reasoningAlways: boolean;
  /** Knows `parallel_tool_calls`. */
  parallelToolCalls: boolean;
  /** Knows `stream_options`. */
  streamOptions: boolean;
  /** How answers are held to a schema: exactly, as far as it goes, or to JSON only. */
  answerSchema: "strict" | "loose" | "none";
  /** Holds answers to it beside tools: else these are called no more, or the request is refused. */
  answerWithTools: boolean;
  /** Whether results of tools can hold images for this model; elsewhere these follow in a message of the user's. */
  toolImages(model: string): boolean;
  /** How it is told that a tool failed. */
  toolFailures: FailureMark;
}

/** Who will read the request: reasoning goes back only to where it came from. */
export interface ChatRequestTarget {
  provider: string;
  model: string;
  quirks: ChatRequestQuirks;
}

/** The body of a streamed chat completion for a model call. */
export function encodeChatRequest(request: ModelRequest, target: ChatRequestTarget): JsonObject {
  const { quirks } = target;
  const body: JsonObject = {
    ...request.extra,
    model: target.model,
    messages: toWireMessages(request.messages, target),
    stream: true,
  };
  if (quirks.streamOptions) body["stream_options"] = { include_usage: true };
  if (request.temperature !== undefined) body["temperature"] = request.temperature;
  if (request.topP !== undefined) body["top_p"] = request.topP;
  if (request.maxOutputTokens !== undefined) body[quirks.maxTokensField] = request.maxOutputTokens;
  const { isHeld, hasTools } = weighFormat(request, quirks);
  if (request.responseFormat !== undefined && isHeld) {
    body["response_format"] = responseFormat(request.responseFormat, quirks);
  }
  if (hasTools) {
    body["tools"] = request.tools.map(({ name, description, parameters, strict }) => ({
      type: "function",
      function: { name, description, parameters, ...(strict ? { strict } : {}) },
    }));
    const choice = request.toolChoice;
    if (choice !== undefined && choice !== "auto") {
      body["tool_choice"] = typeof choice === "string"
        ? choice
        : { type: "function", function: { name: choice.name } };
    }
    if (request.parallelToolCalls !== undefined && quirks.parallelToolCalls) {
      body["parallel_tool_calls"] = request.parallelToolCalls;
    }
  }
  return body;
}

/** Where a provider cannot have both, tools go first, and the format when none may be called any more. */
function weighFormat(
  { tools, toolChoice, responseFormat }: ModelRequest,
  { answerWithTools }: ChatRequestQuirks,
): { isHeld: boolean; hasTools: boolean } {
  const hasTools = tools.length > 0;
  if (responseFormat?.soft !== true || answerWithTools || !hasTools) {
    return { isHeld: true, hasTools };
  }
  const isLast = toolChoice === "none";
  return { isHeld: isLast, hasTools: !isLast };
}

function responseFormat(
  { name, schema, strict = true, soft }: NonNullable<ModelRequest["responseFormat"]>,
  { answerSchema }: ChatRequestQuirks,
): JsonObject {
  if (schema === null || (soft === true && answerSchema === "none")) return { type: "json_object" };
  const isStrict = strict && (soft !== true || answerSchema === "strict");
  return { type: "json_schema", json_schema: { name, schema, strict: isStrict } };
}

function toWireMessages(messages: readonly ModelMessage[], target: ChatRequestTarget): Json[] {
  const wire: JsonObject[] = [];
  const push = (message: JsonObject) => {
    const afterTool = wire.at(-1)?.["role"] === "tool" && message["role"] === "user";
    if (afterTool && target.quirks.assistantAfterTools) {
      wire.push({ role: "assistant", content: "I have read the results." });
    }
    wire.push(message);
  };
  for (const message of messages) {
    if (message.role === "system") push({ role: "system", content: message.text });
    else if (message.role === "user") push({ role: "user", content: userContent(message.content) });
    else if (message.role === "assistant") {
      const assistant = assistantMessage(message.content, target);
      if (assistant !== null) push(assistant);
    } else {
      const images: UserContent[] = [];
      for (const result of message.results) {
        const { text, mark } = toldResult(result, target.quirks);
        const head = {
          role: "tool",
          tool_call_id: wireCallId(result.toolCallId, target.quirks),
          ...mark,
        };
        if (result.images.length > 0 && target.quirks.toolImages(target.model)) {
          push({
            ...head,
            content: userContent([
              ...(text === "" ? [] : [{ type: "text" as const, text }]),
              ...result.images.map((image) => ({ type: "image" as const, ...image })),
            ]),
          });
          continue;
        }
        const shown = result.images.map((image) => {
          images.push({ type: "image", ...image });
          return `(see image ${images.length})`;
        });
        push({ ...head, content: [text, ...shown].filter((line) => line !== "").join("\n") });
      }
      if (images.length > 0) {
        const labelled = images.flatMap((image, index): UserContent[] => [
          { type: "text", text: `Image ${index + 1}:` },
          image,
        ]);
        push({ role: "user", content: userContent(labelled) });
      }
    }
  }
  return wire;
}

/** The text of a result, and what its message has beside it when the tool failed. */
function toldResult(
  { text, isError }: ModelToolResult,
  { toolFailures }: ChatRequestQuirks,
): { text: string; mark: JsonObject } {
  if (!isError) return { text, mark: {} };
  if (toolFailures === "text") return { text: markedFailure(text), mark: {} };
  return { text: failureText(text), mark: { [IS_ERROR]: true } };
}

function userContent(content: readonly UserContent[]): Json {
  if (content.every((piece) => piece.type === "text")) {
    return content.map((piece) => piece.text).join("\n");
  }
  return content.map((piece): Json => {
    if (piece.type === "text") return { type: "text", text: piece.text };
    if (piece.type === "image") return { type: "image_url", image_url: { url: piece.url } };
    return {
      type: "file",
      file: { file_data: piece.url, ...(piece.filename && { filename: piece.filename }) },
    };
  });
}

function assistantMessage(
  content: readonly AssistantContent[],
  target: ChatRequestTarget,
): JsonObject | null {
  let text = "";
  const calls: Json[] = [];
  const reasoning: JsonObject = {};
  for (const piece of content) {
    if (piece.type === "text") text += piece.text;
    else if (piece.type === "tool-call") {
      calls.push({
        id: wireCallId(piece.toolCallId, target.quirks),
        type: "function",
        function: { name: piece.toolName, arguments: piece.inputText },
      });
    } else if (
      piece.origin.provider === target.provider && piece.origin.model === target.model
    ) {
      const { field, payload } = piece.origin;
      const before = reasoning[field];
      if (payload === undefined) {
        reasoning[field] = (typeof before === "string" ? before : "") + piece.text;
      } else if (Array.isArray(before) && Array.isArray(payload)) {
        reasoning[field] = [...before, ...payload];
      } else reasoning[field] = payload;
    }
  }
  if (text === "" && calls.length === 0) return null;
  const { [THINKING_PARTS]: thinking, ...fields } = reasoning;
  return {
    role: "assistant",
    content: typeof thinking === "string"
      ? thinkingContent(thinking, text)
      : text === ""
      ? null
      : text,
    ...(target.quirks.reasoningAlways ? { reasoning_content: "" } : {}),
    ...fields,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

/** Reasoning and text as parts, as Mistral sent them. */
function thinkingContent(thinking: string, text: string): Json[] {
  return [
    { type: "thinking", thinking: [{ type: "text", text: thinking }] },
    ...(text === "" ? [] : [{ type: "text", text }]),
  ];
}

/** The hub's call id as this server takes it: cut by hashing, the same for a call and its result. */
function wireCallId(id: string, quirks: ChatRequestQuirks): string {
  if (id.length <= quirks.toolCallIdLength && quirks.toolCallIdLength !== 9) return id;
  return createHash("sha256").update(id).digest("hex").slice(0, quirks.toolCallIdLength);
}
