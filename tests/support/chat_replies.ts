import type { Usage } from "../../src/core/usage.ts";
import type { Frame, Reply, ReplyEnd } from "./send_reply.ts";

/** A tool call in an answer. `arguments` as an object is written as JSON; `pieces` splits the text over that many deltas. */
export interface ScriptedToolCall {
  /** Default `call_<index>`. */
  id?: string;
  name: string;
  arguments: string | object;
  /** Default 2. */
  pieces?: number;
}

/** What an answer in the OpenAI chat dialect holds. */
export interface ChatOptions {
  /** Split after each word when streamed. */
  text?: string;
  reasoning?: string;
  /** Wire field of the reasoning; default `reasoning_content`. */
  reasoningField?: string;
  /** Why it does not answer; split after each word when streamed. */
  refusal?: string;
  toolCalls?: ScriptedToolCall[];
  usage?: Partial<Usage>;
  /** Default `tool_calls` with tool calls, else `stop`. */
  finishReason?: string;
  /** Number of choices, all alike; default 1. */
  n?: number;
  id?: string;
  model?: string;
  headers?: Record<string, string>;
}

/** The same for a stream. Frame counts include the first one, which carries only the role. */
export interface ChatStreamOptions extends ChatOptions {
  /** Text deltas as they are, instead of `text`. */
  deltas?: string[];
  /** Puts an error object in place of everything after this many frames; no `[DONE]` follows. */
  errorFrameAfter?: number;
  /** The `error` member of that frame. */
  error?: object;
  /** Stops after this many frames in the way `end` says; `end` alone leaves out `[DONE]` only. */
  endAfter?: number;
  end?: ReplyEnd;
  /** Waits between frames. */
  delayMs?: number;
  /** Default true; false leaves `[DONE]` out. */
  done?: boolean;
}

const CREATED = 1_800_000_000;
const DEFAULT_ERROR = { message: "The server had an error", type: "server_error", code: null };

function wireUsage(usage: Partial<Usage>) {
  const { promptTokens = 0, completionTokens = 0, cachedTokens, reasoningTokens } = usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: usage.totalTokens ?? promptTokens + completionTokens,
    ...(cachedTokens === undefined
      ? {}
      : { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    ...(reasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
  };
}

const argumentsText = (call: ScriptedToolCall) =>
  typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);

const words = (text: string) => text.match(/\S+\s*|\s+/g) ?? [];

const finishReasonOf = (options: ChatOptions) =>
  options.finishReason ?? ((options.toolCalls?.length ?? 0) > 0 ? "tool_calls" : "stop");

function toolDeltas(call: ScriptedToolCall, index: number): object[] {
  const text = argumentsText(call);
  const size = Math.max(1, Math.ceil(text.length / (call.pieces ?? 2)));
  const deltas: object[] = [{
    tool_calls: [{
      index,
      id: call.id ?? `call_${index}`,
      type: "function",
      function: { name: call.name, arguments: "" },
    }],
  }];
  for (let from = 0; from < text.length; from += size) {
    const piece = text.slice(from, from + size);
    deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  return deltas;
}

/** The SSE frames of a streamed answer as text, `data: …` and blank line included, `[DONE]` last. */
export function chatFrames(options: ChatStreamOptions = {}): string[] {
  const { id = "chatcmpl-1", model = "mock", n = 1 } = options;
  const envelope = { id, object: "chat.completion.chunk", created: CREATED, model };
  const frame = (value: object) => `data: ${JSON.stringify({ ...envelope, ...value })}\n\n`;
  const deltas: object[] = [{ role: "assistant", content: "" }];
  for (const piece of words(options.reasoning ?? "")) {
    deltas.push({ [options.reasoningField ?? "reasoning_content"]: piece });
  }
  for (const piece of options.deltas ?? words(options.text ?? "")) deltas.push({ content: piece });
  for (const piece of words(options.refusal ?? "")) deltas.push({ refusal: piece });
  options.toolCalls?.forEach((call, index) => deltas.push(...toolDeltas(call, index)));
  const frames: string[] = [];
  for (const delta of deltas) {
    for (let index = 0; index < n; index++) {
      frames.push(frame({ choices: [{ index, delta, finish_reason: null }] }));
    }
  }
  const finish_reason = finishReasonOf(options);
  for (let index = 0; index < n; index++) {
    frames.push(frame({ choices: [{ index, delta: {}, finish_reason }] }));
  }
  if (options.usage !== undefined) {
    frames.push(frame({ choices: [], usage: wireUsage(options.usage) }));
  }
  if (options.errorFrameAfter !== undefined) {
    const error = `data: ${JSON.stringify({ error: options.error ?? DEFAULT_ERROR })}\n\n`;
    return [...frames.slice(0, options.errorFrameAfter), error];
  }
  if (options.endAfter !== undefined) return frames.slice(0, options.endAfter);
  const broken = options.end !== undefined && options.end !== "clean";
  if (options.done !== false && !broken) frames.push("data: [DONE]\n\n");
  return frames;
}

/** A streamed answer, one chunk per frame. */
export function chatStream(options: ChatStreamOptions = {}): Reply {
  const frames: Frame[] = [];
  for (const frame of chatFrames(options)) {
    if (options.delayMs !== undefined && frames.length > 0) {
      frames.push({ delayMs: options.delayMs });
    }
    frames.push(frame);
  }
  return {
    headers: { "content-type": "text/event-stream; charset=utf-8", ...options.headers },
    frames,
    ...(options.end === undefined ? {} : { end: options.end }),
  };
}

/** A whole answer as one JSON body. */
export function chatCompletion(options: ChatOptions = {}): Reply {
  const { id = "chatcmpl-1", model = "mock", n = 1 } = options;
  const message = {
    role: "assistant",
    content: options.text ?? (options.toolCalls === undefined ? "" : null),
    ...(options.reasoning === undefined
      ? {}
      : { [options.reasoningField ?? "reasoning_content"]: options.reasoning }),
    ...(options.refusal === undefined ? {} : { refusal: options.refusal }),
    ...(options.toolCalls === undefined ? {} : {
      tool_calls: options.toolCalls.map((call, index) => ({
        id: call.id ?? `call_${index}`,
        type: "function",
        function: { name: call.name, arguments: argumentsText(call) },
      })),
    }),
  };
  const finish_reason = finishReasonOf(options);
  const choices = Array.from({ length: n }, (_, index) => ({ index, message, finish_reason }));
  return {
    headers: { "content-type": "application/json", ...options.headers },
    body: {
      id,
      object: "chat.completion",
      created: CREATED,
      model,
      choices,
      ...(options.usage === undefined ? {} : { usage: wireUsage(options.usage) }),
    },
  };
}

/** An error answer with OpenAI's body. */
export function chatError(
  status: number,
  options: { message?: string; type?: string; code?: string; headers?: Record<string, string> } =
    {},
): Reply {
  const { message = "The request failed", type = "server_error", code = null } = options;
  return {
    status,
    headers: { "content-type": "application/json", ...options.headers },
    body: { error: { message, type, param: null, code } },
  };
}
