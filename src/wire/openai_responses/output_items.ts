import type { Json, JsonObject } from "../../core/json.ts";
import type { ReasoningOrigin } from "../../core/model.ts";
import type { SourceLink } from "../source_links.ts";
import { Wholeness } from "../wholeness.ts";
import { joinDetails, packReasoning, type Reasoning } from "./reasoning_item.ts";
import { type ClientTool, TOOL_KINDS } from "./tool_kinds.ts";

/** An event without its number. */
export type ItemEvent = JsonObject & { type: string };

/** How an item ended. */
export type ItemEnd = "completed" | "incomplete";

/** An item of the output that goes on. */
export interface OpenItem {
  /** Events that begin it. */
  open(): ItemEvent[];
  /** Whether it may end as soon as another one begins. */
  readonly whole: boolean;
  /** Events that close it. */
  close(end: ItemEnd): ItemEvent[];
  /** The item as it is, for the output. */
  item: JsonObject;
}

/** Where an item stands. */
export interface ItemPlace {
  id: string;
  outputIndex: number;
}

const added = (item: JsonObject, { outputIndex }: ItemPlace): ItemEvent => ({
  type: "response.output_item.added",
  output_index: outputIndex,
  item,
});

const done = (item: JsonObject, { outputIndex }: ItemPlace): ItemEvent => ({
  type: "response.output_item.done",
  output_index: outputIndex,
  item,
});

/** What the assistant says: text, refusals, or both. */
export class MessageItem implements OpenItem {
  readonly whole = true;
  item: JsonObject;
  readonly #place: ItemPlace;
  readonly #parts: JsonObject[] = [];

  constructor(place: ItemPlace) {
    this.#place = place;
    this.item = this.#make("in_progress");
  }

  open(): ItemEvent[] {
    return [added(this.item, this.#place)];
  }

  text(delta: string, kind: "output_text" | "refusal", logprobs: Json[]): ItemEvent[] {
    const events: ItemEvent[] = [];
    let part = this.#parts.at(-1);
    if (part === undefined || part["type"] !== kind) {
      if (part !== undefined) events.push(...this.#closePart(part));
      part = kind === "refusal"
        ? { type: kind, refusal: "" }
        : { type: kind, text: "", annotations: [], logprobs: [] };
      this.#parts.push(part);
      events.push({
        type: "response.content_part.added",
        ...this.#at(),
        part: structuredClone(part),
      });
    }
    if (kind === "refusal") {
      part["refusal"] = String(part["refusal"]) + delta;
      events.push({ type: "response.refusal.delta", ...this.#at(), delta });
      return events;
    }
    part["text"] = String(part["text"]) + delta;
    if (logprobs.length > 0) (part["logprobs"] as Json[]).push(...logprobs);
    events.push({ type: "response.output_text.delta", ...this.#at(), delta, logprobs });
    return events;
  }

  /** Says that the text rests on a page. `from` is where the answer's text stood when this message began. */
  annotate({ url, title = url, cited }: SourceLink, from: number): ItemEvent[] {
    const part = this.#parts.at(-1);
    const annotations = part?.["annotations"];
    if (part === undefined || !Array.isArray(annotations)) return [];
    const placed = (at: number) => Math.min(Math.max(0, at - from), String(part["text"]).length);
    const annotation = {
      type: "url_citation",
      url,
      title,
      start_index: placed(cited?.start ?? 0),
      end_index: placed(cited?.end ?? 0),
    };
    const annotation_index = annotations.push(annotation) - 1;
    const type = "response.output_text.annotation.added";
    return [{ type, ...this.#at(), annotation_index, annotation }];
  }

  close(end: ItemEnd): ItemEvent[] {
    const last = this.#parts.at(-1);
    const events = last === undefined ? [] : this.#closePart(last);
    this.item = this.#make(end);
    return [...events, done(this.item, this.#place)];
  }

  #closePart(part: JsonObject): ItemEvent[] {
    const { text, refusal, logprobs } = part;
    const whole: ItemEvent = part["type"] === "refusal"
      ? { type: "response.refusal.done", ...this.#at(), refusal: refusal ?? "" }
      : {
        type: "response.output_text.done",
        ...this.#at(),
        text: text ?? "",
        logprobs: logprobs ?? [],
      };
    return [whole, { type: "response.content_part.done", ...this.#at(), part: { ...part } }];
  }

  #at(): JsonObject {
    const { id, outputIndex } = this.#place;
    return { item_id: id, output_index: outputIndex, content_index: this.#parts.length - 1 };
  }

  #make(status: string): JsonObject {
    const content = this.#parts.map((part) => ({ ...part }));
    return { id: this.#place.id, type: "message", role: "assistant", status, content };
  }
}

/** What the assistant thinks: its text as the summary, and packed with all else for the way back. */
export class ReasoningItem implements OpenItem {
  readonly whole = true;
  item: JsonObject;
  readonly #place: ItemPlace;
  readonly #pieces: Reasoning[] = [];
  #text: string | null = null;

  constructor(place: ItemPlace) {
    this.#place = place;
    this.item = { id: place.id, type: "reasoning", summary: [] };
  }

  open(): ItemEvent[] {
    return [added(this.item, this.#place)];
  }

  push(piece: Reasoning): ItemEvent[] {
    const last = this.#pieces.find(({ origin }) => origin.field === piece.origin.field);
    if (last === undefined) this.#pieces.push(piece);
    else last.text += piece.text;
    return this.#say(piece.text);
  }

  /** Adds what is not shown, and must go back. */
  details(origin: ReasoningOrigin, details: readonly Json[]): void {
    const known = this.#pieces.find((piece) => piece.origin.field === origin.field);
    const before = known?.origin.payload;
    if (Array.isArray(before)) joinDetails(before, details);
    else {
      const payload = joinDetails([], details);
      this.#pieces.push({ type: "reasoning", text: "", origin: { ...origin, payload } });
    }
  }

  close(): ItemEvent[] {
    const events: ItemEvent[] = [];
    const { id } = this.#place;
    const summary = this.#text === null ? [] : [{ type: "summary_text", text: this.#text }];
    const [part] = summary;
    if (part !== undefined) {
      const at = this.#at();
      events.push(
        { type: "response.reasoning_summary_text.done", ...at, text: part.text },
        { type: "response.reasoning_summary_part.done", ...at, part },
      );
    }
    const encrypted_content = packReasoning(this.#pieces);
    this.item = { id, type: "reasoning", summary, encrypted_content };
    return [...events, done(this.item, this.#place)];
  }

  #say(delta: string): ItemEvent[] {
    const at = this.#at();
    const events: ItemEvent[] = [];
    if (this.#text === null) {
      const part = { type: "summary_text", text: "" };
      events.push({ type: "response.reasoning_summary_part.added", ...at, part });
    }
    this.#text = (this.#text ?? "") + delta;
    events.push({ type: "response.reasoning_summary_text.delta", ...at, delta });
    return events;
  }

  #at(): JsonObject {
    return { item_id: this.#place.id, output_index: this.#place.outputIndex, summary_index: 0 };
  }
}

/** Kinds whose input comes in deltas; the others are shown when they are whole. */
const DELTAS = new Map([
  ["function", { event: "response.function_call_arguments", member: "arguments" }],
  ["custom", { event: "response.custom_tool_call_input", member: "input" }],
]);

/** A call that the client carries out. */
export class CallItem implements OpenItem {
  item: JsonObject;
  readonly #place: ItemPlace;
  readonly #tool: ClientTool;
  readonly #callId: string;
  readonly #wholeness = new Wholeness();
  #arguments = "";

  constructor(place: ItemPlace, { tool, callId }: { tool: ClientTool; callId: string }) {
    this.#place = place;
    this.#tool = tool;
    this.#callId = callId;
    this.item = this.#make("in_progress");
  }

  open(): ItemEvent[] {
    return [added(this.item, this.#place)];
  }

  /** Whether its arguments are a JSON object, so that none is missing. */
  get whole(): boolean {
    return this.#wholeness.of(this.#arguments);
  }

  push(delta: string): ItemEvent[] {
    this.#arguments += delta;
    if (this.#tool.kind !== "function") return [];
    return [{ type: "response.function_call_arguments.delta", ...this.#at(), delta }];
  }

  close(end: ItemEnd): ItemEvent[] {
    this.item = this.#make(end);
    const named = DELTAS.get(this.#tool.kind);
    const events: ItemEvent[] = [];
    if (named !== undefined) {
      const { event, member } = named;
      const whole = this.item[member] ?? "";
      if (this.#tool.kind === "custom" && whole !== "") {
        events.push({ type: `${event}.delta`, ...this.#at(), delta: whole });
      }
      events.push({ type: `${event}.done`, ...this.#at(), [member]: whole });
    }
    return [...events, done(this.item, this.#place)];
  }

  #at(): JsonObject {
    return { item_id: this.#place.id, output_index: this.#place.outputIndex };
  }

  #make(status: string): JsonObject {
    const { kind, name, namespace } = this.#tool;
    const isNamed = DELTAS.has(kind);
    const isEmpty = this.#arguments === "";
    const input = isEmpty && kind === "custom"
      ? { input: "" }
      : TOOL_KINDS[kind].toItem(this.#arguments);
    return {
      id: this.#place.id,
      type: TOOL_KINDS[kind].callType,
      status,
      call_id: this.#callId,
      ...(isNamed ? { name } : {}),
      ...(isNamed && namespace !== null ? { namespace } : {}),
      ...input,
    };
  }
}
