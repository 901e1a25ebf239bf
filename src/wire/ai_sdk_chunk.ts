import type { Json, JsonObject } from "../core/json.ts";

/** Finish reasons that every version of the AI SDK's client reads. */
export type AiSdkFinishReason =
  | "stop"
  | "length"
  | "content-filter"
  | "tool-calls"
  | "error"
  | "other";

/**
 * The chunks of the AI SDK's UI message stream that the hub sends, with exactly these fields: clients reject a stream
 * for one unknown chunk, and versions up to 5.0.217, 6.0.231 and 7.0.32 for one unknown field.
 */
export type AiSdkChunk =
  | { type: "start"; messageId: string; messageMetadata: JsonObject }
  | { type: "start-step" | "finish-step" }
  /** Level 7 only. */
  | { type: "reset-step" }
  | { type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end"; id: string }
  | { type: "text-delta" | "reasoning-delta"; id: string; delta: string }
  | { type: "tool-input-start"; toolCallId: string; toolName: string; dynamic: true }
  | { type: "tool-input-delta"; toolCallId: string; inputTextDelta: string }
  | {
    type: "tool-input-available";
    toolCallId: string;
    toolName: string;
    input: Json;
    dynamic: true;
  }
  | {
    type: "tool-input-error";
    toolCallId: string;
    toolName: string;
    input: string;
    errorText: string;
    dynamic: true;
  }
  | {
    type: "tool-output-available";
    toolCallId: string;
    output: Json;
    dynamic: true;
    preliminary?: true;
  }
  | { type: "tool-output-error"; toolCallId: string; errorText: string; dynamic: true }
  /** Level 6 and up. */
  | { type: "tool-approval-request"; approvalId: string; toolCallId: string }
  /** Level 6 and up. */
  | { type: "tool-output-denied"; toolCallId: string }
  | { type: "source-url"; sourceId: string; url: string; title?: string }
  | { type: "file"; url: string; mediaType: string }
  | { type: `data-${string}`; id?: string; data: Json; transient?: true }
  | { type: "message-metadata"; messageMetadata: JsonObject }
  | { type: "abort" }
  | { type: "error"; errorText: string }
  | { type: "finish"; finishReason: AiSdkFinishReason; messageMetadata: JsonObject };

/**
 * What a client said it understands with the header `hub-stream-level`. 5: every version from 5.0.92. 6: approvals as
 * chunks of their own. 7: steps can be taken back (`reset-step`, from 7.0.71).
 */
export type AiSdkLevel = 5 | 6 | 7;

/** The level of a request by its `hub-stream-level` header; 5 when it is missing or says something else. */
export function parseStreamLevel(header: string | null | undefined): AiSdkLevel {
  if (header === "7") return 7;
  return header === "6" ? 6 : 5;
}

/**
 * A chunk as JSON text without the keys at which the AI SDK's parser throws: `__proto__`, and a `constructor` that is
 * null or has a `prototype`. A tool's output may hold them, and one refused chunk ends the client's stream.
 */
export function encodeAiSdkChunk(chunk: AiSdkChunk): string {
  const text = JSON.stringify(chunk);
  if (!text.includes('__proto__"') && !text.includes('constructor"')) return text;
  return JSON.stringify(chunk, (key: string, value: Json) => {
    if (key === "__proto__") return undefined;
    if (key !== "constructor" || typeof value !== "object") return value;
    return value === null || Object.hasOwn(value, "prototype") ? undefined : value;
  });
}
