import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ModelEvent, ModelFinishReason, ReasoningOrigin } from "../../core/model.ts";
import { readDataUrl } from "../chat_fields.ts";
import { fileNote } from "../file_note.ts";
import type { SourceLink } from "../source_links.ts";
import { ImageItem } from "./image_item.ts";
import { ItemQueue } from "./item_queue.ts";
import {
  CallItem,
  type ItemEnd,
  type ItemEvent,
  type ItemPlace,
  MessageItem,
  ReasoningItem,
} from "./output_items.ts";
import { joinDetails, type Reasoning } from "./reasoning_item.ts";
import { toResponsesUsage } from "./response_object.ts";
import type { ClientTool } from "./tool_kinds.ts";

/** What the events of one response are made with. */
export interface ResponseWriterOptions {
  /** The response before there is anything of it. */
  response: JsonObject;
  /** What the client knows each function as. */
  tools: ReadonlyMap<string, ClientTool>;
  showEncrypted: boolean;
  /** Who answers: its reasoning goes back to nobody else. */
  provider: string;
  model: string;
  /** Seconds since 1970. */
  now(): number;
}

const INCOMPLETE: ReadonlyMap<ModelFinishReason, string> = new Map([
  ["length", "max_output_tokens"],
  ["content-filter", "content_filter"],
]);

/** Makes the events of one response from what the model says, numbered from 0. */
export class ResponseWriter {
  /** The response as it is to be kept, reasoning packed in it. */
  response: JsonObject;
  readonly #options: ResponseWriterOptions;
  readonly #queue = new ItemQueue();
  readonly #calls = new Map<number, CallItem>();
  readonly #callIds = new Set<string>();
  #late: Json[] = [];
  /** Sources that came while no text was open. */
  #sources: SourceLink[] = [];
  /** Length of all text so far, and where the message that is open began in it, in UTF-16 code units. */
  #textLength = 0;
  #textFrom = 0;
  #sequence = 0;

  constructor(options: ResponseWriterOptions) {
    this.#options = options;
    this.response = options.response;
  }

  begin(): JsonObject[] {
    const { response } = this;
    return this.#number([
      { type: "response.created", response },
      { type: "response.in_progress", response },
    ]);
  }

  /** The events of what one read brought. */
  push(events: readonly ModelEvent[]): JsonObject[] {
    return this.#number(events.flatMap((event) => this.#take(event)));
  }

  /** The failure as the last event. */
  fail(error: JsonObject): JsonObject[] {
    this.response = { ...this.response, status: "failed", output: this.#output(), error };
    return this.#number([{ type: "response.failed", response: this.#shown(this.response) }]);
  }

  #take(event: ModelEvent): ItemEvent[] {
    switch (event.type) {
      case "text-delta": {
        const { delta, logprobs = [] } = event;
        const kind = event.refusal === true ? "refusal" : "output_text";
        const [text, begun] = this.#openText();
        const said = this.#queue.say(text, () => text.text(delta, kind, logprobs));
        this.#textLength += delta.length;
        const links = this.#sources.splice(0);
        return [...begun, ...said, ...links.flatMap((link) => this.#annotate(link))];
      }
      case "reasoning-delta": {
        const origin = this.#origin(event.field);
        const [thought, begun] = this.#openThought();
        const piece: Reasoning = { type: "reasoning", text: event.delta, origin };
        return [...begun, ...this.#queue.say(thought, () => thought.push(piece))];
      }
      case "reasoning-payload":
        return this.#takePayload(event.field, event.payload);
      case "tool-call-start":
        return this.#openCall(event);
      case "tool-call-delta":
        return this.#argue(event);
      case "usage":
        this.response = { ...this.response, usage: toResponsesUsage(event.usage) };
        return [];
      case "finish":
        return this.#finish(event.finishReason);
      case "source-url":
        return this.#annotate(event);
      case "file":
        return this.#image(event);
      case "file-left-out":
        return this.#note(fileNote(event));
      case "response-start":
        return [];
    }
  }

  #annotate(link: SourceLink): ItemEvent[] {
    const text = this.#text;
    if (text === null) {
      this.#sources.push(link);
      return [];
    }
    return this.#queue.say(text, () => text.annotate(link, this.#textFrom));
  }

  /** Words of the hub's own, below what the model has said. */
  #note(text: string): ItemEvent[] {
    return this.#take({ type: "text-delta", delta: this.#text === null ? text : `\n\n${text}` });
  }

  #image(file: Extract<ModelEvent, { type: "file" }>): ItemEvent[] {
    const image = readDataUrl(file.url);
    if (image === null || !image.mediaType.startsWith("image/")) {
      return this.#note(fileNote(file));
    }
    return this.#queue.add(new ImageItem(this.#place("ig"), image));
  }

  #argue({ index, delta }: Extract<ModelEvent, { type: "tool-call-delta" }>): ItemEvent[] {
    const call = this.#calls.get(index);
    return call === undefined ? [] : this.#queue.say(call, () => call.push(delta));
  }

  #takePayload(field: string, payload: Json): ItemEvent[] {
    const details = Array.isArray(payload) ? payload : [payload];
    if (this.#text !== null || this.#calls.size > 0) {
      this.#late = joinDetails(this.#late, details);
      return [];
    }
    const [thought, begun] = this.#openThought();
    thought.details(this.#origin(field), details);
    return begun;
  }

  #finish(reason: ModelFinishReason): ItemEvent[] {
    const why = INCOMPLETE.get(reason);
    const end: ItemEnd = why === undefined ? "completed" : "incomplete";
    const events = this.#queue.end(end);
    if (this.#late.length > 0) {
      const thought = new ReasoningItem(this.#place("rs"));
      thought.details(this.#origin("reasoning_details"), this.#late);
      events.push(...this.#queue.add(thought), ...this.#queue.end("completed"));
    }
    this.response = {
      ...this.response,
      status: end,
      completed_at: end === "completed" ? this.#options.now() : null,
      incomplete_details: why === undefined ? null : { reason: why },
      output: this.#output(),
    };
    return [...events, { type: `response.${end}`, response: this.response }];
  }

  /** The message that is open; null when another item came last. */
  get #text(): MessageItem | null {
    const { last } = this.#queue;
    return last instanceof MessageItem ? last : null;
  }

  #openText(): [MessageItem, ItemEvent[]] {
    if (this.#text !== null) return [this.#text, []];
    const text = new MessageItem(this.#place("msg"));
    this.#textFrom = this.#textLength;
    return [text, this.#queue.add(text)];
  }

  #openThought(): [ReasoningItem, ItemEvent[]] {
    const { last } = this.#queue;
    if (last instanceof ReasoningItem) return [last, []];
    const thought = new ReasoningItem(this.#place("rs"));
    return [thought, this.#queue.add(thought)];
  }

  #openCall(event: Extract<ModelEvent, { type: "tool-call-start" }>): ItemEvent[] {
    const { index, providerCallId, toolName } = event;
    const tool = this.#options.tools.get(toolName) ??
      { kind: "function", name: toolName, namespace: null };
    const place = this.#place(tool.kind === "custom" ? "ctc" : "fc");
    const isNew = providerCallId !== "" && !this.#callIds.has(providerCallId);
    const callId = isNew ? providerCallId : place.id.replace(/^\w+?_/, "call_");
    this.#callIds.add(callId);
    const call = new CallItem(place, { tool, callId });
    this.#calls.set(index, call);
    return this.#queue.add(call);
  }

  /** Item ids have the response's in them, so that an item can be found by its own. */
  #place(prefix: string): ItemPlace {
    const outputIndex = this.#queue.length;
    const number = outputIndex.toString(16).padStart(4, "0");
    const response = String(this.response["id"]).replace(/^resp_/, "");
    return { id: `${prefix}_${response}${number}`, outputIndex };
  }

  #origin(field: string): ReasoningOrigin {
    const { provider, model } = this.#options;
    return { provider, model, field };
  }

  #output(): JsonObject[] {
    return this.#queue.items;
  }

  #number(events: readonly ItemEvent[]): JsonObject[] {
    return events.map((event) => ({
      ...this.#showEvent(event),
      sequence_number: this.#sequence++,
    }));
  }

  #showEvent(event: ItemEvent): JsonObject {
    const { item, response } = event;
    if (isJsonObject(item)) return { ...event, item: this.#showItem(item) };
    return isJsonObject(response) ? { ...event, response: this.#shown(response) } : event;
  }

  #shown(response: JsonObject): JsonObject {
    return this.#options.showEncrypted ? response : withoutEncrypted(response);
  }

  #showItem(item: JsonObject): JsonObject {
    return this.#options.showEncrypted ? item : hideEncrypted(item);
  }
}

/** The response without what only its own provider can read. */
export function withoutEncrypted(response: JsonObject): JsonObject {
  const { output } = response;
  if (!Array.isArray(output)) return response;
  return {
    ...response,
    output: output.map((item) => isJsonObject(item) ? hideEncrypted(item) : item),
  };
}

/** The item without what only its own provider can read. */
export function hideEncrypted(item: JsonObject): JsonObject {
  if (!("encrypted_content" in item)) return item;
  const { encrypted_content: _hidden, ...rest } = item;
  return rest;
}
