import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import {
  type AnswerPiece,
  ChunkWriter,
  mintCallId,
  toChatUsage,
  toCompletion,
} from "../chat_answer.ts";
import type { ChatAnswerFacts, ChatChunkMaker, ChatDialect, ChatError } from "../chat_dialect.ts";
import { errorTextIn, hasError } from "../errors/read_error.ts";
import { createLineReader } from "../line_reader.ts";
import { encodeOllamaRequest } from "./encode_request.ts";
import { parseFrame } from "../parse_frame.ts";

/** Ollama's `/api/chat` asked in chat completions. `docs/providers.md` has what becomes of each field. */
export const OLLAMA: ChatDialect = {
  encodeRequest: encodeOllamaRequest,
  startChunks,
  decodeAnswer,
  decodeError: decodeOllamaError,
};

const TOO_LONG = /(longer than|exceeds?) [^]*context/i;

/** The members of an OpenAI error for `{"error": "text"}`, and for what servers say that are like Ollama. */
export function decodeOllamaError(native: unknown, status: number): ChatError {
  const message = errorTextIn(native) || `Ollama answered ${status}`;
  const type = status >= 500 ? "server_error" : "invalid_request_error";
  if (TOO_LONG.test(message)) {
    return {
      message,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
  }
  return { message, type, param: null, code: status === 404 ? "model_not_found" : null };
}

/** Reads the responses of one answer, whole or in pieces. */
class OllamaReader {
  readonly #facts: ChatAnswerFacts;
  #calls = 0;
  #reason: string | null = null;
  #usage: JsonObject | null = null;

  constructor(facts: ChatAnswerFacts) {
    this.#facts = facts;
  }

  read(response: JsonObject): AnswerPiece[] {
    if (response["done"] === true) {
      const reason = response["done_reason"];
      this.#reason = reason === "length" ? "length" : "stop";
      this.#usage = readUsage(response);
    }
    const message = response["message"];
    if (!isJsonObject(message)) return [];
    const { thinking, content, tool_calls: calls } = message;
    const pieces: AnswerPiece[] = [];
    if (typeof thinking === "string" && thinking !== "") {
      pieces.push({ type: "reasoning", text: thinking });
    }
    if (typeof content === "string" && content !== "") pieces.push({ type: "text", text: content });
    if (Array.isArray(calls)) pieces.push(...calls.filter(isJsonObject).map((c) => this.#call(c)));
    return pieces;
  }

  /** Why the answer ended; null while it has not. */
  get finishReason(): string | null {
    return this.#reason === "stop" && this.#calls > 0 ? "tool_calls" : this.#reason;
  }

  get usage(): JsonObject | null {
    return this.#usage;
  }

  /** Each call comes whole, and all of them may say that they are the first: they are counted here. */
  #call(call: JsonObject): AnswerPiece {
    const index = this.#calls++;
    const fn = isJsonObject(call["function"]) ? call["function"] : {};
    const id = call["id"];
    return {
      type: "call",
      id: typeof id === "string" && id !== "" ? id : mintCallId(this.#facts, index),
      name: String(fn["name"] ?? ""),
      arguments: JSON.stringify(fn["arguments"] ?? {}),
    };
  }
}

function readUsage(response: JsonObject): JsonObject | null {
  const { prompt_eval_count: prompt, eval_count: completion } = response;
  if (typeof prompt !== "number" && typeof completion !== "number") return null;
  const count = (value: Json | undefined) => typeof value === "number" ? value : 0;
  return toChatUsage({ prompt: count(prompt), completion: count(completion) });
}

function logprobsOf(response: JsonObject): JsonObject | undefined {
  const { logprobs } = response;
  return Array.isArray(logprobs) && logprobs.length > 0 ? { content: logprobs } : undefined;
}

function decodeAnswer(native: JsonObject, facts: ChatAnswerFacts): JsonObject {
  if (hasError(native)) return { error: decodeOllamaError(native, 500) };
  const reader = new OllamaReader(facts);
  const pieces = reader.read(native);
  const { finishReason, usage } = reader;
  if (finishReason === null) {
    throw new HubError("upstream_malformed", "Ollama's answer does not say that it is done");
  }
  const logprobs = logprobsOf(native);
  return toCompletion(facts, {
    pieces,
    finishReason,
    usage,
    ...(logprobs === undefined ? {} : { logprobs }),
  });
}

function startChunks(facts: ChatAnswerFacts): ChatChunkMaker {
  const reader = new OllamaReader(facts);
  const writer = new ChunkWriter(facts);
  const lines = createLineReader();
  let failed = false;
  let done = false;

  const take = (line: string): JsonObject[] => {
    if (failed || done || line.trim() === "") return [];
    let response: unknown;
    try {
      response = parseFrame(line);
    } catch {
      return [];
    }
    if (!isJsonObject(response)) return [];
    if (hasError(response)) {
      failed = true;
      return [{ error: decodeOllamaError(response, 500) }];
    }
    const chunks = writer.pieces(reader.read(response), logprobsOf(response));
    const { finishReason, usage } = reader;
    if (finishReason === null) return chunks;
    done = true;
    return [...chunks, ...writer.finish(finishReason, usage)];
  };

  return {
    push: (bytes) => lines.push(bytes).flatMap(take),
    end: () => lines.end().flatMap(take),
    get done() {
      return done;
    },
  };
}
