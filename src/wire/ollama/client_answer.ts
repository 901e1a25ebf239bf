import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { encodeJsonInSteps } from "../../core/large_json/encode_json.ts";
import type { ModelEvent } from "../../core/model.ts";
import { NO_USAGE, type Usage } from "../../core/usage.ts";
import { parseInput } from "../../core/parse_input.ts";
import { completionEvents } from "../openai_chat/completion_events.ts";
import { type EventWriter, type Read, translateEvents } from "../translated_events.ts";

/** What the objects of one answer are made with. */
export interface OllamaWriterOptions {
  /** The model as the client named it. */
  model: string;
  /** Whether text is a `message` (of a chat), or a `response`. */
  isChat: boolean;
  /** Milliseconds since the epoch, and of a clock that only goes on. */
  now(): number;
  monotonic(): number;
}

const encoder = new TextEncoder();
const NANOS = 1_000_000;

/** Writes what a model says as the objects of an answer of Ollama: pieces, and a last one with `done`. */
export class OllamaWriter implements EventWriter {
  readonly #options: OllamaWriterOptions;
  readonly #startedMs: number;
  /** When the first piece came. */
  #firstMs: number | null = null;
  #calls = new Map<number, { name: string; id: string; input: string }>();
  #usage: Usage = NO_USAGE;

  constructor(options: OllamaWriterOptions) {
    this.#options = options;
    this.#startedMs = options.monotonic();
  }

  begin(): JsonObject[] {
    return [];
  }

  push(events: readonly ModelEvent[]): JsonObject[] {
    return events.flatMap((event): JsonObject[] => {
      switch (event.type) {
        case "text-delta":
          return event.delta === "" ? [] : [this.#piece({ text: event.delta })];
        case "reasoning-delta":
          return event.delta === "" ? [] : [this.#piece({ thinking: event.delta })];
        case "tool-call-start":
          this.#calls.set(event.index, {
            name: event.toolName,
            id: event.providerCallId,
            input: "",
          });
          return [];
        case "tool-call-delta": {
          const call = this.#calls.get(event.index);
          if (call !== undefined) call.input += event.delta;
          return [];
        }
        case "usage":
          this.#usage = event.usage;
          return [];
        case "finish":
          return [
            ...this.#calls.size === 0 ? [] : [this.#piece({ calls: this.#takeCalls() })],
            this.#last(event.finishReason === "length" ? "length" : "stop"),
          ];
        default:
          return [];
      }
    });
  }

  #piece(said: { text?: string; thinking?: string; calls?: JsonObject[] }): JsonObject {
    this.#firstMs ??= this.#options.monotonic();
    return { ...this.#head(), ...this.#said(said), done: false };
  }

  #said({ text = "", thinking, calls }: {
    text?: string;
    thinking?: string;
    calls?: JsonObject[];
  }): JsonObject {
    const thought = thinking === undefined ? {} : { thinking };
    if (!this.#options.isChat) return { response: text, ...thought };
    const called = calls === undefined ? {} : { tool_calls: calls };
    return { message: { role: "assistant", content: text, ...thought, ...called } };
  }

  #last(reason: string): JsonObject {
    const endMs = this.#options.monotonic();
    const firstMs = this.#firstMs ?? endMs;
    const nanos = (ms: number) => Math.max(0, Math.round(ms * NANOS));
    return {
      ...this.#head(),
      ...this.#said({}),
      done: true,
      done_reason: reason,
      total_duration: nanos(endMs - this.#startedMs),
      load_duration: 0,
      prompt_eval_count: this.#usage.promptTokens,
      prompt_eval_duration: nanos(firstMs - this.#startedMs),
      eval_count: this.#usage.completionTokens,
      eval_duration: nanos(endMs - firstMs),
    };
  }

  #head(): JsonObject {
    const { model, now } = this.#options;
    return { model, created_at: new Date(now()).toISOString() };
  }

  #takeCalls(): JsonObject[] {
    return [...this.#calls.values()].map(({ name, id, input }, index) => ({
      id,
      function: { index, name, arguments: argumentsOf(input) },
    }));
  }
}

/** A streamed chat answer as lines of JSON. */
export function translateToLines(read: Read, options: OllamaWriterOptions): Read {
  const next = translateEvents(read, new OllamaWriter(options));
  return async () => {
    const objects = await next();
    return objects === null ? null : encoder.encode(objects.map(lineOf).join(""));
  };
}

/** A whole chat answer as one object. Rejects `upstream_malformed` for what is none. */
export async function translateToObject(
  bytes: Uint8Array,
  options: OllamaWriterOptions,
): Promise<Uint8Array> {
  const objects = new OllamaWriter(options).push(await completionEvents(bytes));
  return await encodeJsonInSteps(joinObjects(objects));
}

/** One object of a stream. */
export function lineOf(object: JsonObject): string {
  return `${JSON.stringify(object)}\n`;
}

/** The last object with all that the ones before it said. */
function joinObjects(objects: readonly JsonObject[]): JsonObject {
  const last = objects.at(-1) ?? {};
  const field = "message" in last ? "message" : null;
  const saidBy = (object: JsonObject): JsonObject => {
    const said = field === null ? object : object[field];
    return isJsonObject(said) ? said : {};
  };
  const name = field === null ? "response" : "content";
  const textOf = (key: string) =>
    objects.map((object) => saidBy(object)[key]).filter((text) => typeof text === "string").join(
      "",
    );
  const thinking = textOf("thinking");
  const calls = objects.flatMap((object): Json[] => {
    const made = saidBy(object)["tool_calls"];
    return Array.isArray(made) ? made : [];
  });
  const said = {
    [name]: textOf(name),
    ...(thinking === "" ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return field === null
    ? { ...last, ...said }
    : { ...last, [field]: { role: "assistant", ...said } };
}

function argumentsOf(text: string): Json {
  const parsed = parseInput(text);
  return isJsonObject(parsed) ? parsed : {};
}
