import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ModelEvent, ModelFinishReason, ReasoningOrigin } from "../../core/model.ts";
import {
  CallItem,
  type ItemEnd,
  type ItemEvent,
  type ItemPlace,
  MessageItem,
  type OpenItem,
  ReasoningItem,
} from "./output_items.ts";
import { joinDetails } from "./reasoning_item.ts";
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
  readonly #items: OpenItem[] = [];
  readonly #calls = new Map<number, CallItem>();
  readonly #callIds = new Set<string>();
  #text: MessageItem | null = null;
  #thought: ReasoningItem | null = null;
  #late: Json[] = [];
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
        const kind = event.refusal === true ? "refusal" : "output_text";
        return [
          ...this.#endThought(),
          ...this.#openText(),
          ...this.#text?.text(event.delta, kind, event.logprobs ?? []) ?? [],
        ];
      }
      case "reasoning-delta":
        return [
          ...this.#endText("completed"),
          ...this.#openThought(),
          ...this.#thought?.push({
            type: "reasoning",
            text: event.delta,
            origin: this.#origin(event.field),
          }) ?? [],
        ];
      case "reasoning-payload":
        return this.#takePayload(event.field, event.payload);
      case "tool-call-start":
        return this.#openCall(event);
      case "tool-call-delta":
        return this.#calls.get(event.index)?.push(event.delta) ?? [];
      case "usage":
        this.response = { ...this.response, usage: toResponsesUsage(event.usage) };
        return [];
      case "finish":
        return this.#finish(event.finishReason);
      case "response-start":
      case "source-url":
        return [];
    }
  }

  #takePayload(field: string, payload: Json): ItemEvent[] {
    const details = Array.isArray(payload) ? payload : [payload];
    if (this.#text !== null || this.#calls.size > 0) {
      this.#late = joinDetails(this.#late, details);
      return [];
    }
    const events = this.#openThought();
    this.#thought?.details(this.#origin(field), details);
    return events;
  }

  #finish(reason: ModelFinishReason): ItemEvent[] {
    const why = INCOMPLETE.get(reason);
    const end: ItemEnd = why === undefined ? "completed" : "incomplete";
    const events = [...this.#endThought(), ...this.#endText(end)];
    for (const call of this.#calls.values()) events.push(...call.close(end));
    if (this.#late.length > 0) {
      events.push(...this.#openThought());
      this.#thought?.details(this.#origin("reasoning_details"), this.#late);
      events.push(...this.#endThought());
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

  #openText(): ItemEvent[] {
    if (this.#text !== null) return [];
    this.#text = new MessageItem(this.#place("msg"));
    this.#items.push(this.#text);
    return this.#text.open();
  }

  #endText(end: ItemEnd): ItemEvent[] {
    const events = this.#text?.close(end) ?? [];
    this.#text = null;
    return events;
  }

  #openThought(): ItemEvent[] {
    if (this.#thought !== null) return [];
    this.#thought = new ReasoningItem(this.#place("rs"));
    this.#items.push(this.#thought);
    return this.#thought.open();
  }

  #endThought(): ItemEvent[] {
    const events = this.#thought?.close() ?? [];
    this.#thought = null;
    return events;
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
    const events = [...this.#endThought(), ...this.#endText("completed"), ...call.open()];
    this.#items.push(call);
    this.#calls.set(index, call);
    return events;
  }

  /** Item ids have the response's in them, so that an item can be found by its own. */
  #place(prefix: string): ItemPlace {
    const outputIndex = this.#items.length;
    const number = outputIndex.toString(16).padStart(4, "0");
    const response = String(this.response["id"]).replace(/^resp_/, "");
    return { id: `${prefix}_${response}${number}`, outputIndex };
  }

  #origin(field: string): ReasoningOrigin {
    const { provider, model } = this.#options;
    return { provider, model, field };
  }

  #output(): JsonObject[] {
    return this.#items.map(({ item }) => item);
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
