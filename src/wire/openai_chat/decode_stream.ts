import { HubError } from "../../core/error.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ModelEvent, ModelFinishReason } from "../../core/model.ts";
import { createSseParser } from "../../core/sse.ts";
import { hasError } from "../errors/read_error.ts";
import { AnswerExtras } from "./answer_extras.ts";
import { readUsage } from "./chat_usage.ts";
import { parseFrame } from "../parse_frame.ts";

const FINISH_REASONS: ReadonlyMap<string, ModelFinishReason> = new Map([
  ["stop", "stop"],
  ["end_turn", "stop"],
  ["length", "length"],
  ["max_tokens", "length"],
  ["content_filter", "content-filter"],
  ["tool_calls", "tool-calls"],
  ["function_call", "tool-calls"],
]);

/** Fields in which providers stream reasoning text. */
const REASONING_FIELDS = ["reasoning_content", "reasoning"] as const;

/** Stands for the parts of `content` in which Mistral streams reasoning, and wants it back. */
export const THINKING_PARTS = "content.thinking";

/** Decodes a chat stream (choice 0) into model events. */
export interface ChatDecoder {
  /** The events of one read. Throws `upstream_error` for an error object, `upstream_malformed` past a bound. */
  push(chunk: Uint8Array): ModelEvent[];
  /** Call at the end of the body; throws `upstream_cut` when the answer has no finish reason. */
  end(): ModelEvent[];
  /** The events of a read that threw, up to what it threw at. */
  rest(): ModelEvent[];
  /** Frames that were no JSON. */
  readonly malformedFrames: number;
}

interface CallSlot {
  index: number;
  id: string;
}

/** Makes a decoder for one answer. */
export function createChatDecoder(): ChatDecoder {
  let events: ModelEvent[] = [];
  let finishReason: ModelFinishReason | null = null;
  let malformedFrames = 0;
  let callCount = 0;
  const slots = new Map<string, CallSlot>();
  let lastSlot: CallSlot | null = null;
  const extras = new AnswerExtras();

  const takeCall = (call: JsonObject) => {
    const wireIndex = typeof call["index"] === "number" ? String(call["index"]) : null;
    const id = typeof call["id"] === "string" ? call["id"] : "";
    const fn = isJsonObject(call["function"]) ? call["function"] : {};
    const name = typeof fn["name"] === "string" ? fn["name"] : "";
    const known = wireIndex === null ? (id === "" ? lastSlot : null) : slots.get(wireIndex) ?? null;
    // A new id on a used index is a new call: some providers send index 0 for every call.
    const isNew = known === null || (id !== "" && known.id !== "" && id !== known.id);
    const slot = isNew ? { index: callCount, id } : known;
    if (isNew) {
      if (name === "") return;
      callCount++;
      slots.set(wireIndex ?? `no-index-${callCount}`, slot);
      events.push({
        type: "tool-call-start",
        index: slot.index,
        providerCallId: id,
        toolName: name,
      });
    }
    lastSlot = slot;
    const text = argumentText(fn["arguments"]);
    if (text !== "") events.push({ type: "tool-call-delta", index: slot.index, delta: text });
  };

  const takePart = (part: Json) => {
    if (!isJsonObject(part)) return;
    const { type, text, thinking } = part;
    if (type === "text" && typeof text === "string" && text !== "") {
      events.push({ type: "text-delta", delta: text });
    }
    if (type === "image_url") events.push(...extras.ofImage(part));
    const thought = type === "thinking" && Array.isArray(thinking)
      ? thinking.map((item) => isJsonObject(item) ? item["text"] ?? "" : "").join("")
      : "";
    if (thought !== "") {
      events.push({ type: "reasoning-delta", delta: thought, field: THINKING_PARTS });
    }
  };

  const takeDelta = (delta: JsonObject, logprobs: Json[]) => {
    for (const field of REASONING_FIELDS) {
      const text = delta[field];
      if (typeof text === "string" && text !== "") {
        events.push({ type: "reasoning-delta", delta: text, field });
        break;
      }
    }
    const details = delta["reasoning_details"];
    if (Array.isArray(details) && details.length > 0) {
      events.push({ type: "reasoning-payload", field: "reasoning_details", payload: details });
    }
    const { content, refusal } = delta;
    if (typeof content === "string" && content !== "") {
      const more = logprobs.length === 0 ? {} : { logprobs };
      events.push({ type: "text-delta", delta: content, ...more });
    }
    if (typeof refusal === "string" && refusal !== "") {
      events.push({ type: "text-delta", delta: refusal, refusal: true });
    }
    if (Array.isArray(content)) { for (const part of content) takePart(part); }
    events.push(...extras.ofDelta(delta));
    const calls = delta["tool_calls"];
    if (Array.isArray(calls)) { for (const call of calls) if (isJsonObject(call)) takeCall(call); }
  };

  const takeChunk = (chunk: JsonObject) => {
    if (hasError(chunk)) {
      throw new HubError("upstream_error", "The provider reported an error in its stream");
    }
    const choice = firstChoice(chunk["choices"]);
    if (choice !== undefined) {
      if (isJsonObject(choice["delta"])) takeDelta(choice["delta"], logprobsOf(choice));
      const reason = choice["finish_reason"];
      if (typeof reason === "string" && reason !== "") {
        finishReason = FINISH_REASONS.get(reason) ?? "unknown";
      }
    }
    events.push(...extras.ofChunk(chunk));
    const usage = readUsage(chunk["usage"]);
    if (usage !== null) events.push({ type: "usage", usage });
  };

  const parser = createSseParser({
    onEvent({ data }) {
      if (data === "" || data === "[DONE]") return;
      let chunk: unknown;
      try {
        chunk = parseFrame(data);
      } catch {
        malformedFrames++;
        return;
      }
      if (isJsonObject(chunk)) takeChunk(chunk);
    },
  });

  const drain = () => {
    const taken = events;
    events = [];
    return taken;
  };
  return {
    push(chunk) {
      parser.push(chunk);
      return drain();
    },
    end() {
      parser.end();
      if (finishReason === null) {
        throw new HubError(
          "upstream_cut",
          "The provider's answer ended without saying why it stopped",
        );
      }
      return [...drain(), { type: "finish", finishReason }];
    },
    rest: drain,
    get malformedFrames() {
      return malformedFrames;
    },
  };
}

/** Choice 0 of a chunk: with `n`, the chunks of the choices are mixed. */
function firstChoice(choices: Json | undefined): JsonObject | undefined {
  if (!Array.isArray(choices)) return undefined;
  for (const choice of choices) {
    if (isJsonObject(choice) && (choice["index"] ?? 0) === 0) return choice;
  }
  return undefined;
}

function logprobsOf(choice: JsonObject): Json[] {
  const { logprobs } = choice;
  const items = isJsonObject(logprobs) ? logprobs["content"] : null;
  return Array.isArray(items) ? items : [];
}

/** Arguments come as text; a few servers send the object itself. */
function argumentText(value: Json | undefined): string {
  if (typeof value === "string") return value;
  return isJsonObject(value) ? JSON.stringify(value) : "";
}
