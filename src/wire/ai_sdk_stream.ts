import type { FinishReason, HubEvent } from "../core/event.ts";
import type { JsonObject } from "../core/json.ts";
import { addUsage, NO_USAGE, type Usage } from "../core/usage.ts";
import {
  type AiSdkChunk,
  type AiSdkFinishReason,
  type AiSdkLevel,
  encodeAiSdkChunk,
} from "./ai_sdk_chunk.ts";
import { approvalData } from "./ai_sdk_message.ts";

/** Headers of an AI SDK stream. */
export const AI_SDK_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-vercel-ai-ui-message-stream": "v1",
  "x-accel-buffering": "no",
});

/** Renders one run for one reader. It must see the run from `start` on, since chunks depend on what came before. */
export interface AiSdkRenderer {
  toChunks(event: HubEvent): AiSdkChunk[];
  /** The same chunks as SSE frames; empty when the event has none. The sender adds `DONE_FRAME` after `finish`. */
  render(event: HubEvent): Uint8Array;
  /**
   * Begins a stream that goes on with the message of the events so far, which its reader has, or with another message of
   * this id: its first frame.
   */
  resume(messageId?: string): Uint8Array;
  /**
   * Ends a stream whose run waits for people behind the event of this number: the last frames. The metadata say so, and
   * name the number as `waitingAt`, from which on the answer's stream goes on.
   */
  pause(seq: number): Uint8Array;
}

/** Makes a renderer for `useChat` clients. */
export function createAiSdkRenderer(options: { level?: AiSdkLevel } = {}): AiSdkRenderer {
  const rendering = new Rendering(options.level ?? 5);
  return {
    toChunks: (event) => rendering.toChunks(event),
    render: (event) => toFrames(rendering.toChunks(event)),
    resume: (messageId) => toFrames(rendering.start(messageId)),
    pause: (seq) => toFrames(rendering.pause(seq)),
  };
}

function toFrames(chunks: readonly AiSdkChunk[]): Uint8Array {
  let text = "";
  for (const chunk of chunks) text += `data: ${encodeAiSdkChunk(chunk)}\n\n`;
  return encoder.encode(text);
}

const encoder = new TextEncoder();
const VOID_CALL = "The model's answer broke off here and was made again";

type EventOf<T extends HubEvent["type"]> = Extract<HubEvent, { type: T }>;

class Rendering {
  readonly #level: AiSdkLevel;
  readonly #openTexts = new Set<string>();
  readonly #openReasonings = new Set<string>();
  readonly #streaming = new Map<string, { toolName: string; inputText: string }>();
  /** Calls of this step without a final output. */
  readonly #ready = new Set<string>();
  readonly #approvals = new Map<string, JsonObject>();
  #holdsFinishStep = false;
  #usage: Usage = { ...NO_USAGE };
  #usageSent = false;
  #start: Extract<AiSdkChunk, { type: "start" }> | null = null;

  constructor(level: AiSdkLevel) {
    this.#level = level;
  }

  toChunks(event: HubEvent): AiSdkChunk[] {
    switch (event.type) {
      case "start": {
        const { messageId, runId, sessionId, model } = event;
        const names = runId === undefined || sessionId === undefined ? {} : { runId, sessionId };
        this.#start = { type: "start", messageId, messageMetadata: { ...names, model } };
        return this.start();
      }
      case "step-start":
        return [...this.#finishStep(), { type: "start-step" }];
      case "step-finish":
        this.#usage = addUsage(this.#usage, event.usage);
        this.#holdsFinishStep = true;
        return this.#ready.size === 0 ? this.#finishStep() : [];
      case "step-reset":
        return this.#resetStep(event.step);
      case "text-start":
        this.#openTexts.add(event.id);
        return [{ type: "text-start", id: event.id }];
      case "reasoning-start":
        this.#openReasonings.add(event.id);
        return [{ type: "reasoning-start", id: event.id }];
      case "text-delta":
      case "reasoning-delta":
        return [{ type: event.type, id: event.id, delta: event.delta }];
      case "text-end":
        this.#openTexts.delete(event.id);
        return [{ type: "text-end", id: event.id }];
      case "reasoning-end":
        this.#openReasonings.delete(event.id);
        return [{ type: "reasoning-end", id: event.id }];
      case "tool-input-start":
      case "tool-input-delta":
      case "tool-input-available":
      case "tool-input-error":
        return this.#renderInput(event);
      case "tool-output-available":
      case "tool-output-error":
      case "tool-output-denied":
        return this.#renderOutput(event);
      case "tool-approval-request":
      case "tool-approval-response":
        return this.#renderApproval(event);
      case "source-url": {
        const { sourceId, url, title } = event;
        return [{ type: "source-url", sourceId, url, ...(title === undefined ? {} : { title }) }];
      }
      case "file":
        return [{ type: "file", url: event.url, mediaType: event.mediaType }];
      case "data":
        return [{
          type: `data-${event.name}`,
          ...(event.id === undefined ? {} : { id: event.id }),
          data: event.data,
          ...(event.transient === true ? { transient: true } : {}),
        }];
      case "error":
        return [...this.#beforeEnd(), { type: "error", errorText: event.errorText }];
      case "abort":
        return [...this.#beforeEnd(), { type: "abort" }];
      case "finish":
        this.#usage = event.usage;
        return [...this.#beforeEnd(), {
          type: "finish",
          finishReason: toAiSdkFinishReason(event.finishReason),
          messageMetadata: {
            model: event.metadata.model,
            provider: event.metadata.provider,
            finishReason: event.finishReason,
            usage: { ...event.usage },
            costMicros: event.costMicros,
            ...event.estimated === true ? { estimated: true } : {},
          },
        }];
    }
  }

  start(messageId?: string): AiSdkChunk[] {
    if (this.#start === null) return [];
    return [messageId === undefined ? this.#start : { ...this.#start, messageId }];
  }

  pause(seq: number): AiSdkChunk[] {
    const usage = { ...this.#usage };
    const messageMetadata = { finishReason: "waiting", usage, waitingAt: seq };
    const finishReason = toAiSdkFinishReason("waiting");
    return [...this.#finishStep(), { type: "finish", finishReason, messageMetadata }];
  }

  #finishStep(): AiSdkChunk[] {
    if (!this.#holdsFinishStep) return [];
    this.#holdsFinishStep = false;
    this.#ready.clear();
    return [{ type: "finish-step" }];
  }

  /** Clients stop reading at an error, so usage goes before it. */
  #beforeEnd(): AiSdkChunk[] {
    const chunks = this.#finishStep();
    if (!this.#usageSent) {
      chunks.push({ type: "message-metadata", messageMetadata: { usage: { ...this.#usage } } });
    }
    this.#usageSent = true;
    return chunks;
  }

  #renderInput(event: EventOf<`tool-input-${string}` & HubEvent["type"]>): AiSdkChunk[] {
    const { toolCallId } = event;
    switch (event.type) {
      case "tool-input-start": {
        const { toolName } = event;
        this.#streaming.set(toolCallId, { toolName, inputText: "" });
        return [{ type: "tool-input-start", toolCallId, toolName, dynamic: true }];
      }
      case "tool-input-delta": {
        const { inputTextDelta } = event;
        const call = this.#streaming.get(toolCallId);
        if (call !== undefined) call.inputText += inputTextDelta;
        return [{ type: "tool-input-delta", toolCallId, inputTextDelta }];
      }
      case "tool-input-available": {
        const { toolName, input } = event;
        this.#streaming.delete(toolCallId);
        this.#ready.add(toolCallId);
        return [{ type: "tool-input-available", toolCallId, toolName, input, dynamic: true }];
      }
      case "tool-input-error": {
        const { type, toolName, input, errorText } = event;
        this.#streaming.delete(toolCallId);
        return [{ type, toolCallId, toolName, input, errorText, dynamic: true }];
      }
    }
  }

  #renderOutput(event: EventOf<`tool-output-${string}` & HubEvent["type"]>): AiSdkChunk[] {
    const { toolCallId } = event;
    if (event.type === "tool-output-available" && event.preliminary === true) {
      const { type, output } = event;
      return [{ type, toolCallId, output, dynamic: true, preliminary: true }];
    }
    this.#ready.delete(toolCallId);
    const rest = this.#ready.size === 0 ? this.#finishStep() : [];
    if (event.type === "tool-output-available") {
      return [{ type: event.type, toolCallId, output: event.output, dynamic: true }, ...rest];
    }
    if (event.type === "tool-output-denied" && this.#level >= 6) {
      return [{ type: "tool-output-denied", toolCallId }, ...rest];
    }
    const { errorText } = event;
    return [{ type: "tool-output-error", toolCallId, errorText, dynamic: true }, ...rest];
  }

  #renderApproval(event: EventOf<`tool-approval-${string}` & HubEvent["type"]>): AiSdkChunk[] {
    const id = event.approvalId;
    if (event.type === "tool-approval-request") {
      const { type, approvalId: _, ...asked } = event;
      const { toolCallId } = asked;
      this.#approvals.set(id, asked);
      return [
        { type: "data-approval", id, data: approvalData(asked, null) },
        ...this.#level >= 6 ? [{ type, approvalId: id, toolCallId }] : [],
      ];
    }
    return [{
      type: "data-approval",
      id,
      data: approvalData(this.#approvals.get(id) ?? {}, event),
    }];
  }

  /**
   * Below level 7 nothing can be taken back: what is open is closed, calls that will never run fail, and a part
   * `data-step-reset` says that everything since the step's beginning is void.
   */
  #resetStep(step: number): AiSdkChunk[] {
    const chunks: AiSdkChunk[] = [];
    if (this.#level >= 7) chunks.push({ type: "reset-step" });
    else {
      for (const id of this.#openTexts) chunks.push({ type: "text-end", id });
      for (const id of this.#openReasonings) chunks.push({ type: "reasoning-end", id });
      const failure = { errorText: VOID_CALL, dynamic: true } as const;
      for (const [toolCallId, { toolName, inputText: input }] of this.#streaming) {
        chunks.push({ type: "tool-input-error", toolCallId, toolName, input, ...failure });
      }
      for (const toolCallId of this.#ready) {
        chunks.push({ type: "tool-output-error", toolCallId, ...failure });
      }
      chunks.push({ type: "data-step-reset", data: { step } });
    }
    this.#openTexts.clear();
    this.#openReasonings.clear();
    this.#streaming.clear();
    this.#ready.clear();
    return chunks;
  }
}

/** The nearest reason that AI SDK clients know; the hub's own word is in the metadata. */
export function toAiSdkFinishReason(reason: FinishReason): AiSdkFinishReason {
  switch (reason) {
    case "stop":
    case "length":
    case "content-filter":
    case "tool-calls":
    case "error":
      return reason;
    case "waiting":
      return "tool-calls";
    case "max-steps":
    case "max-time":
    case "max-tokens":
    case "max-cost":
    case "max-output":
    case "token-limit":
    case "aborted":
      return "other";
  }
}
