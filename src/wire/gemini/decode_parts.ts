import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { type AnswerPiece, mintCallId, toChatUsage } from "../chat_answer.ts";
import type { ChatAnswerFacts } from "../chat_dialect.ts";
import { GroundingReader } from "./grounding.ts";
import { callDetail, signedCall, textDetail, thoughtDetail } from "./signatures.ts";

const FINISH_REASONS: Readonly<Record<string, string>> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  // What one request may make has been made; more would need a further request.
  CONTINUATION: "length",
  SAFETY: "content_filter",
  RECITATION: "content_filter",
  LANGUAGE: "content_filter",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  SPII: "content_filter",
  IMAGE_SAFETY: "content_filter",
  IMAGE_PROHIBITED_CONTENT: "content_filter",
  IMAGE_RECITATION: "content_filter",
  OTHER: "content_filter",
};

/** Ends of answers that the model or its server has spoilt: asking again is all that helps. */
const SPOILT: ReadonlySet<string> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "MALFORMED_RESPONSE",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
  "MISSING_THOUGHT_SIGNATURE",
]);

/** Reads the responses of one answer, whole or in pieces. */
export class GeminiReader {
  readonly #facts: ChatAnswerFacts;
  readonly #grounding = new GroundingReader();
  #calls = 0;
  #reason: string | null = null;
  #usage: JsonObject | null = null;

  constructor(facts: ChatAnswerFacts) {
    this.#facts = facts;
  }

  /** What a response adds. */
  read(response: JsonObject): AnswerPiece[] {
    this.#usage = readUsage(response["usageMetadata"]) ?? this.#usage;
    const feedback = response["promptFeedback"];
    const block = isJsonObject(feedback) ? feedback["blockReason"] : undefined;
    if (typeof block === "string") {
      this.#reason = "PROHIBITED_CONTENT";
      return [{ type: "refusal", text: `Gemini blocked the prompt (${block})` }];
    }
    const candidates = response["candidates"];
    const candidate = Array.isArray(candidates) ? candidates.find(isFirst) : undefined;
    if (!isJsonObject(candidate)) return [];
    if (typeof candidate["finishReason"] === "string") this.#reason = candidate["finishReason"];
    const content = candidate["content"];
    const parts = isJsonObject(content) ? content["parts"] : undefined;
    const pieces = Array.isArray(parts)
      ? parts.flatMap((part) => isJsonObject(part) ? this.#part(part) : [])
      : [];
    for (const piece of pieces) if (piece.type === "text") this.#grounding.push(piece.text);
    for (const link of this.#grounding.take(candidate)) pieces.push({ type: "source", link });
    return pieces;
  }

  /** Why the answer ended, in OpenAI's words; null while it has not. */
  get finishReason(): string | null {
    if (this.#reason === null) return null;
    const reason = FINISH_REASONS[this.#reason] ?? this.#reason.toLowerCase();
    return reason === "stop" && this.#calls > 0 ? "tool_calls" : reason;
  }

  /** What spoilt the answer; null when nothing has. */
  get spoilt(): string | null {
    if (this.#reason === null || !SPOILT.has(this.#reason)) return null;
    return `Gemini ended its answer with ${this.#reason}`;
  }

  get usage(): JsonObject | null {
    return this.#usage;
  }

  #part(part: JsonObject): AnswerPiece[] {
    const signature = typeof part["thoughtSignature"] === "string" ? part["thoughtSignature"] : "";
    const { functionCall: call, inlineData: data, text } = part;
    if (isJsonObject(call)) return this.#call(call, signature);
    const pieces: AnswerPiece[] = [];
    if (part["thought"] === true) {
      const thought = typeof text === "string" ? text : "";
      if (thought !== "") pieces.push({ type: "reasoning", text: thought });
      if (signature !== "") pieces.push(thoughtDetail(thought, signature));
      return pieces;
    }
    if (typeof text === "string" && text !== "") pieces.push({ type: "text", text });
    if (isJsonObject(data) && typeof data["data"] === "string") {
      pieces.push({ type: "image", url: `data:${data["mimeType"]};base64,${data["data"]}` });
    }
    if (signature !== "") pieces.push(textDetail(signature));
    return pieces;
  }

  #call(call: JsonObject, signature: string): AnswerPiece[] {
    const index = this.#calls++;
    const id = typeof call["id"] === "string" && call["id"] !== ""
      ? call["id"]
      : mintCallId(this.#facts, index);
    const piece: AnswerPiece = {
      type: "call",
      id,
      name: String(call["name"] ?? ""),
      arguments: JSON.stringify(call["args"] ?? {}),
    };
    if (signature === "") return [piece];
    return [{ ...piece, extra: signedCall(signature) }, callDetail(signature, { id, index })];
  }
}

/** The candidate that chat completions call choice 0. */
function isFirst(candidate: Json): boolean {
  return isJsonObject(candidate) && (candidate["index"] ?? 0) === 0;
}

/** Gemini counts thoughts beside the answer, and cached tokens within the prompt. */
function readUsage(usage: Json | undefined): JsonObject | null {
  if (!isJsonObject(usage)) return null;
  const count = (name: string) => typeof usage[name] === "number" ? usage[name] : 0;
  if (!("promptTokenCount" in usage) && !("candidatesTokenCount" in usage)) return null;
  return toChatUsage({
    prompt: count("promptTokenCount") + count("toolUsePromptTokenCount"),
    completion: count("candidatesTokenCount") + count("thoughtsTokenCount"),
    cached: count("cachedContentTokenCount"),
    reasoning: count("thoughtsTokenCount"),
  });
}
