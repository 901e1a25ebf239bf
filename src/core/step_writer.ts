import { AnswerBounds } from "./answer_bounds.ts";
import { HubError } from "./error.ts";
import type { HubEvent } from "./event.ts";
import { fileLeftOutEvent } from "./file_left_out.ts";
import { type DeltaEvent, joinDelta } from "./join_delta.ts";
import type { Json } from "./json.ts";
import type { ModelEvent, ModelFinishReason, ReasoningOrigin } from "./model.ts";
import { parseInput } from "./parse_input.ts";
import { CallInputs, type InputBounds, type StepCall } from "./step_call.ts";
import type { Usage } from "./usage.ts";

/** How a writer names things. */
export interface StepWriterOptions {
  /** Number of the next part (`p<n>`); take `nextPart` of the message's former writer, so that ids stay unique. */
  firstPart: number;
  /** Makes the id of a tool call, unique per message. Providers reuse theirs. */
  mintCallId(providerCallId: string): string;
  /** Wire name to shown name; the wire name itself when absent. */
  toolName?(wireName: string): string;
  /** Drops tool calls that come all the same: the model was told not to call. */
  ignoreCalls?: boolean;
  /** Arguments past them are dropped; without it all are kept. */
  inputBounds?: InputBounds;
}

/** Who answered. */
export interface Responder {
  provider: string;
  model: string;
}

type Open =
  | { kind: "text"; id: string }
  | { kind: "reasoning"; id: string; field: string; payload?: Json };

/** Turns the events of one model answer into the events of one step, and keeps what the answer said. */
export class StepWriter {
  readonly #options: StepWriterOptions;
  readonly #calls = new Map<number, StepCall>();
  readonly #sources = new Set<string>();
  readonly #bounds = new AnswerBounds();
  readonly #inputs: CallInputs;
  #nextPart: number;
  #open: Open | null = null;
  /** What a `push` wrote before it threw. */
  #unread: HubEvent[] = [];
  #callsClosed = false;
  #text = "";
  #finishReason: ModelFinishReason | null = null;
  #usage: Usage | null = null;
  #costMicros: number | null = null;
  #responder: Responder | null = null;
  #emitted = false;
  #isRefusal = false;

  constructor(options: StepWriterOptions) {
    this.#options = options;
    this.#nextPart = options.firstPart;
    this.#inputs = new CallInputs(options.inputBounds);
  }

  /** Number for the first part of the message's next writer. */
  get nextPart(): number {
    return this.#nextPart;
  }

  /** All text of the answer so far. */
  get text(): string {
    return this.#text;
  }

  /** Calls in the order in which they began; none when they are ignored. */
  get calls(): readonly StepCall[] {
    return [...this.#calls.values()];
  }

  /** Why the model stopped; null while it has not said so. */
  get finishReason(): ModelFinishReason | null {
    return this.#finishReason;
  }

  /** True once the model has said why it does not answer. */
  get isRefusal(): boolean {
    return this.#isRefusal;
  }

  /** The last usage reported: providers that report more than once report totals. */
  get usage(): Usage | null {
    return this.#usage;
  }

  /** Cost reported with the usage, in millionths of a US dollar. */
  get costMicros(): number | null {
    return this.#costMicros;
  }

  /** Provider and upstream model that answered. */
  get responder(): Responder | null {
    return this.#responder;
  }

  /** True once `push` gave an event. */
  get emitted(): boolean {
    return this.#emitted;
  }

  /**
   * Takes the events of one read of the network and gives the step's events, deltas of a part joined. Throws
   * `upstream_malformed` past `AnswerBounds`, and when a call starts twice or never; what came before comes with `end`.
   */
  push(events: readonly ModelEvent[]): HubEvent[] {
    const written = this.#unread;
    const deltas = new Map<string, DeltaEvent>();
    for (const event of events) this.#take(event, written, deltas);
    this.#unread = [];
    if (written.length > 0) this.#emitted = true;
    return written;
  }

  /** Closes text and reasoning that is still open. Tool inputs are closed by whoever judges them. */
  end(): HubEvent[] {
    const written = this.#unread;
    this.#unread = [];
    this.#close(written);
    return written;
  }

  /**
   * Closes all tool inputs without judging them against a schema: parsed when the text is JSON (empty text is `{}`),
   * else, and when they may have been cut to nothing, as an error. For streams where nobody executes the calls.
   */
  endCalls(): HubEvent[] {
    if (this.#callsClosed) return [];
    this.#callsClosed = true;
    const mayBeCut = this.#finishReason === "length" || this.#finishReason === "unknown";
    return this.calls.map(({ toolCallId, toolName, inputText }) => {
      const input = mayBeCut && inputText.trim() === "" ? undefined : parseInput(inputText);
      if (input !== undefined) {
        return { type: "tool-input-available", toolCallId, toolName, input };
      }
      const errorText = "The arguments are not valid JSON";
      return { type: "tool-input-error", toolCallId, toolName, input: inputText, errorText };
    });
  }

  #take(event: ModelEvent, written: HubEvent[], deltas: Map<string, DeltaEvent>): void {
    switch (event.type) {
      case "response-start":
        this.#responder = { provider: event.provider, model: event.model };
        return;
      case "text-delta": {
        if (event.delta === "") return;
        this.#bounds.addText(event.delta);
        this.#text += event.delta;
        this.#isRefusal ||= event.refusal === true;
        const id = this.#openText(written);
        return joinDelta(written, deltas, { type: "text-delta", id, delta: event.delta });
      }
      case "reasoning-delta": {
        if (event.delta === "") return;
        this.#bounds.addText(event.delta);
        const { id } = this.#openReasoning(event.field, written);
        return joinDelta(written, deltas, { type: "reasoning-delta", id, delta: event.delta });
      }
      case "reasoning-payload":
        return this.#takePayload(event.field, event.payload, written);
      case "tool-call-start":
        return this.#startCall(event, written);
      case "tool-call-delta":
        return this.#continueCall(event.index, event.delta, written, deltas);
      case "source-url":
        return this.#takeSource(event, written);
      case "file":
        written.push({ type: "file", mediaType: event.mediaType, url: event.url });
        return;
      case "file-left-out":
        written.push(fileLeftOutEvent(event));
        return;
      case "usage":
        this.#usage = event.usage;
        this.#costMicros = event.costMicros ?? null;
        return;
      case "finish":
        this.#finishReason = event.finishReason;
        return;
    }
  }

  /** A page is one source of a step, however many pieces of its text rest on it. */
  #takeSource(
    { url, title }: Extract<ModelEvent, { type: "source-url" }>,
    written: HubEvent[],
  ): void {
    if (this.#sources.has(url)) return;
    this.#sources.add(url);
    const sourceId = this.#mintPart();
    written.push({ type: "source-url", sourceId, url, ...(title === undefined ? {} : { title }) });
  }

  #openText(written: HubEvent[]): string {
    if (this.#open?.kind === "text") return this.#open.id;
    this.#close(written);
    const id = this.#mintPart();
    this.#open = { kind: "text", id };
    written.push({ type: "text-start", id });
    return id;
  }

  #openReasoning(field: string, written: HubEvent[]): Open & { kind: "reasoning" } {
    const open = this.#open;
    // A part whose payload has come keeps the payload's field; its text may go on under the field of the deltas.
    if (open?.kind === "reasoning" && (open.field === field || open.payload !== undefined)) {
      return open;
    }
    this.#close(written);
    const opened = { kind: "reasoning" as const, id: this.#mintPart(), field };
    this.#open = opened;
    written.push({ type: "reasoning-start", id: opened.id });
    return opened;
  }

  /** A payload belongs to the reasoning around it; one that comes later gets a part of its own, without text. */
  #takePayload(field: string, payload: Json, written: HubEvent[]): void {
    const open = this.#open?.kind === "reasoning" ? this.#open : null;
    const fits = open !== null && (open.payload === undefined || open.field === field);
    const part: Open & { kind: "reasoning" } = fits ? open : this.#openReasoning(field, written);
    if (Array.isArray(part.payload) && Array.isArray(payload)) part.payload.push(...payload);
    else part.payload = Array.isArray(payload) ? [...payload] : payload;
    part.field = field;
  }

  #startCall(
    event: Extract<ModelEvent, { type: "tool-call-start" }>,
    written: HubEvent[],
  ): void {
    if (this.#options.ignoreCalls === true) return;
    if (this.#calls.has(event.index)) {
      throw new HubError(
        "upstream_malformed",
        `Tool call ${event.index} of the answer started twice`,
      );
    }
    this.#bounds.addCall();
    this.#close(written);
    const toolCallId = this.#options.mintCallId(event.providerCallId);
    const toolName = this.#options.toolName?.(event.toolName) ?? event.toolName;
    this.#calls.set(event.index, {
      toolCallId,
      providerCallId: event.providerCallId,
      wireName: event.toolName,
      toolName,
      inputText: "",
      inputLength: 0,
    });
    written.push({ type: "tool-input-start", toolCallId, toolName });
  }

  #continueCall(
    index: number,
    delta: string,
    written: HubEvent[],
    deltas: Map<string, DeltaEvent>,
  ): void {
    if (this.#options.ignoreCalls === true || delta === "") return;
    const call = this.#calls.get(index);
    if (call === undefined) {
      const what = `Arguments came for tool call ${index}, which the answer never started`;
      throw new HubError("upstream_malformed", what);
    }
    this.#bounds.addText(delta);
    const inputTextDelta = this.#inputs.append(call, delta);
    if (inputTextDelta === "") return;
    const { toolCallId } = call;
    joinDelta(written, deltas, { type: "tool-input-delta", toolCallId, inputTextDelta });
  }

  #close(written: HubEvent[]): void {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    if (open.kind === "text") {
      written.push({ type: "text-end", id: open.id });
      return;
    }
    const responder = this.#responder;
    if (responder === null) {
      written.push({ type: "reasoning-end", id: open.id });
      return;
    }
    const payload = open.payload === undefined ? {} : { payload: open.payload };
    const origin: ReasoningOrigin = { ...responder, field: open.field, ...payload };
    written.push({ type: "reasoning-end", id: open.id, origin });
  }

  #mintPart(): string {
    return `p${this.#nextPart++}`;
  }
}
