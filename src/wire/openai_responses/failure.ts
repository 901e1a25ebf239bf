import type { HubError } from "../../core/error.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { newResponse } from "./response_object.ts";
import { toFrame } from "../translated_events.ts";

/** Codes of errors that clients act on; all others are the server's. */
const KNOWN: ReadonlySet<string> = new Set([
  "context_length_exceeded",
  "insufficient_quota",
  "rate_limit_exceeded",
]);

/** A failure as `response.error`. */
export function toResponseError(error: HubError): JsonObject {
  const { code, clientCode, kind, status, message, words } = error;
  // A code of the provider's own, in a dialect that is the client's too.
  if (words?.dialect === "responses" && clientCode !== code) return { code: clientCode, message };
  if (KNOWN.has(clientCode)) return { code: clientCode, message };
  if (status === 429) return { code: "rate_limit_exceeded", message };
  const isTheirs = kind.type === "invalid_request_error";
  return { code: isTheirs ? "invalid_prompt" : "server_error", message };
}

/** Failures in which the answer stopped without a word. */
const CUT_OFF: ReadonlySet<string> = new Set([
  "upstream_cut",
  "upstream_timeout",
  "upstream_malformed",
  "lease_lost",
  "shutting_down",
  "internal_error",
]);

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Tells a failure as the last event of a stream of which only the bytes are known. */
export class ResponseFailure {
  readonly #facts: { id: string; createdAt: number; model: string };
  #first: Uint8Array | null = null;
  #last: Uint8Array | null = null;

  /** `begin` makes the response of a stream that nothing was shown of. */
  constructor(facts: { id: string; createdAt: number; model: string }) {
    this.#facts = facts;
  }

  /** Frames have gone to the client. */
  shown(bytes: Uint8Array): void {
    this.#first ??= bytes;
    this.#last = bytes;
  }

  tell(failure: HubError): Uint8Array {
    const begun = this.#begun();
    const response = begun ?? newResponse({}, { ...this.#facts, tools: [] });
    const number = begun === null ? 0 : this.#lastNumber();
    const frames = [{
      type: "response.failed",
      response: { ...response, status: "failed", error: toResponseError(failure) },
      sequence_number: number + 1,
    }];
    const created = { type: "response.created", response, sequence_number: 0 };
    const told = begun === null ? [created, ...frames] : frames;
    return encoder.encode(told.map(toFrame).join(""));
  }

  /**
   * `response.failed` is an end of its own, and a connection that breaks behind it hides it from codex. What was cut
   * off still breaks: whoever looks at nothing but the text must not take it for whole.
   */
  endsWith({ code }: HubError): boolean {
    return !CUT_OFF.has(code);
  }

  /** The response that the first event tells of. */
  #begun(): JsonObject | null {
    if (this.#first === null) return null;
    for (const line of decoder.decode(this.#first).split(/\r\n|\n|\r/)) {
      if (!line.startsWith("data:")) continue;
      try {
        const event: unknown = JSON.parse(line.slice("data:".length));
        if (isJsonObject(event) && isJsonObject(event["response"])) return event["response"];
      } catch {
        // A frame that was broken when it came.
      }
    }
    return null;
  }

  #lastNumber(): number {
    const text = this.#last === null ? "" : decoder.decode(this.#last);
    const at = text.lastIndexOf('"sequence_number"');
    const number = at < 0 ? null : /^"sequence_number"\s*:\s*(\d+)/.exec(text.slice(at, at + 60));
    return Number(number?.[1] ?? 0);
  }
}
