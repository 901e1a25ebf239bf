import type { Json, JsonObject } from "../../core/json.ts";
import type { ModelEvent, ModelFinishReason } from "../../core/model.ts";
import { NO_USAGE, type Usage } from "../../core/usage.ts";
import { fileNote } from "../file_note.ts";
import type { SourceLink } from "../source_links.ts";
import { CallBlock, RedactedBlock, TextBlock, ThoughtBlock } from "./answer_blocks.ts";
import { BlockQueue } from "./block_queue.ts";

/** What the events of one message are made with. */
export interface MessageWriterOptions {
  /** Id of the message. */
  id: string;
  /** The model as the client named it. */
  model: string;
  /** Whether the client expects thinking. */
  thinks: boolean;
  /** Who answers: its reasoning goes back to nobody else. */
  from: { provider: string; model: string };
}

/** Ends that are not the model's own choice. */
const STOP_REASONS: ReadonlyMap<ModelFinishReason, string> = new Map([
  ["length", "max_tokens"],
  ["content-filter", "refusal"],
]);

/** Makes the events of one message from what the model says, and the message itself. */
export class MessageWriter {
  readonly #options: MessageWriterOptions;
  readonly #queue = new BlockQueue();
  readonly #calls = new Map<number, CallBlock>();
  readonly #ids = new Set<string>();
  /** Reasoning that is not shown, or came too late to be. */
  readonly #kept: ThoughtBlock;
  /** Sources that came while no text was open. */
  #sources: SourceLink[] = [];
  #usage: Usage = NO_USAGE;
  #stopReason: string | null = null;

  constructor(options: MessageWriterOptions) {
    this.#options = options;
    this.#kept = new ThoughtBlock(options.from);
  }

  /** The message as it is now. */
  get message(): JsonObject {
    const { id, model } = this.#options;
    return {
      id,
      type: "message",
      role: "assistant",
      model,
      content: this.#queue.blocks,
      stop_reason: this.#stopReason,
      stop_sequence: null,
      usage: usageOf(this.#usage),
    };
  }

  begin(): JsonObject[] {
    return [{ type: "message_start", message: this.message }];
  }

  /** The events of what one read brought. */
  push(events: readonly ModelEvent[]): JsonObject[] {
    return events.flatMap((event) => this.#take(event));
  }

  #take(event: ModelEvent): JsonObject[] {
    switch (event.type) {
      case "text-delta":
        return this.#text(event.delta);
      case "reasoning-delta":
        return this.#thought(event.delta, event.field);
      case "reasoning-payload":
        return this.#details(event.payload, event.field);
      case "tool-call-start":
        return this.#call(event);
      case "tool-call-delta": {
        const call = this.#calls.get(event.index);
        return call === undefined ? [] : this.#queue.delta(call, call.push(event.delta));
      }
      case "usage":
        this.#usage = event.usage;
        return [];
      case "finish":
        return this.#finish(event.finishReason);
      case "source-url":
        return this.#cite(event);
      case "file":
      case "file-left-out":
        return this.#note(fileNote(event));
      case "response-start":
        return [];
    }
  }

  #cite(link: SourceLink): JsonObject[] {
    const { last } = this.#queue;
    if (last instanceof TextBlock) return this.#queue.delta(last, last.cite(link));
    this.#sources.push(link);
    return [];
  }

  /** Words of the hub's own, in a block of their own. */
  #note(text: string): JsonObject[] {
    const block = new TextBlock();
    return [...this.#queue.add(block), ...this.#queue.delta(block, block.push(text))];
  }

  #text(text: string): JsonObject[] {
    const { last } = this.#queue;
    const block = last instanceof TextBlock ? last : new TextBlock();
    const begun = block === last ? [] : this.#queue.add(block);
    const events = [...begun, ...this.#queue.delta(block, block.push(text))];
    return [...events, ...this.#sources.splice(0).flatMap((link) => this.#cite(link))];
  }

  #thought(text: string, field: string): JsonObject[] {
    if (!this.#options.thinks) {
      this.#kept.push(text, field);
      return [];
    }
    const { last } = this.#queue;
    const block = last instanceof ThoughtBlock ? last : new ThoughtBlock(this.#options.from);
    const begun = block === last ? [] : this.#queue.add(block);
    return [...begun, ...this.#queue.delta(block, block.push(text, field))];
  }

  #details(payload: Json, field: string): JsonObject[] {
    const details = Array.isArray(payload) ? payload : [payload];
    const { last } = this.#queue;
    if (last instanceof ThoughtBlock) {
      last.details(details, field);
      return [];
    }
    if (!this.#options.thinks || last !== null) {
      this.#kept.details(details, field);
      return [];
    }
    const block = new ThoughtBlock(this.#options.from);
    block.details(details, field);
    return this.#queue.add(block);
  }

  #call(event: Extract<ModelEvent, { type: "tool-call-start" }>): JsonObject[] {
    const { index, providerCallId, toolName: name } = event;
    const wanted = providerCallId.replace(/[^A-Za-z0-9_-]/g, "_");
    const own = `${this.#options.id.replace(/^msg_/, "toolu_")}${index}`;
    const id = wanted !== "" && !this.#ids.has(wanted) ? wanted : own;
    this.#ids.add(id);
    const call = new CallBlock({ id, name });
    this.#calls.set(index, call);
    return this.#queue.add(call);
  }

  #finish(reason: ModelFinishReason): JsonObject[] {
    const called = this.#calls.size > 0;
    const events: JsonObject[] = [];
    // Without its reasoning some models cannot go on after a call; nothing else needs it.
    if (!this.#kept.empty && (called || this.#options.thinks)) {
      events.push(...this.#queue.add(new RedactedBlock(this.#kept.packed)));
    }
    this.#stopReason = STOP_REASONS.get(reason) ?? (called ? "tool_use" : "end_turn");
    const delta = { stop_reason: this.#stopReason, stop_sequence: null };
    return [
      ...events,
      ...this.#queue.end(),
      { type: "message_delta", delta, usage: usageOf(this.#usage) },
      { type: "message_stop" },
    ];
  }
}

/** Anthropic counts what was read from the cache apart. */
function usageOf({ promptTokens, completionTokens, cachedTokens }: Usage): JsonObject {
  const cached = Math.min(cachedTokens, promptTokens);
  return {
    input_tokens: promptTokens - cached,
    output_tokens: completionTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
  };
}
