import type { Json, JsonObject } from "../../core/json.ts";
import {
  joinDetails,
  MARK,
  packReasoning,
  type Reasoning,
} from "../openai_responses/reasoning_item.ts";
import { parseObject, Wholeness } from "../wholeness.ts";

/** A block of an answer while it is made. */
export interface AnswerBlock {
  /** How it begins, with nothing in it. */
  readonly start: JsonObject;
  /** As it is now. */
  readonly block: JsonObject;
  /** Whether it may end as soon as another one has begun. */
  readonly whole: boolean;
  /** The deltas with which it ends. */
  end(): JsonObject[];
}

/** Text. */
export class TextBlock implements AnswerBlock {
  readonly start: JsonObject = { type: "text", text: "" };
  readonly whole = true;
  readonly #citations: JsonObject[] = [];
  #text = "";

  get block(): JsonObject {
    const citations = this.#citations;
    return { type: "text", text: this.#text, ...(citations.length === 0 ? {} : { citations }) };
  }

  /** Says that the text rests on a page. The quote is not known; the token is the hub's, so that it never reaches Anthropic. */
  cite({ url, title = null }: { url: string; title?: string | null }): JsonObject {
    const type = "web_search_result_location";
    const citation = { type, url, title, cited_text: "", encrypted_index: MARK };
    this.#citations.push(citation);
    return { type: "citations_delta", citation };
  }

  push(text: string): JsonObject {
    this.#text += text;
    return { type: "text_delta", text };
  }

  end(): JsonObject[] {
    return [];
  }
}

/** A call of a tool. */
export class CallBlock implements AnswerBlock {
  readonly start: JsonObject;
  readonly #facts: { id: string; name: string };
  readonly #wholeness = new Wholeness();
  #text = "";

  constructor(facts: { id: string; name: string }) {
    this.#facts = facts;
    this.start = { type: "tool_use", ...facts, input: {} };
  }

  get block(): JsonObject {
    const text = this.#text.trim();
    const input = text === "" ? {} : parseObject(text) ?? { invalid_arguments: text };
    return { type: "tool_use", ...this.#facts, input };
  }

  get whole(): boolean {
    return this.#wholeness.of(this.#text);
  }

  push(text: string): JsonObject {
    this.#text += text;
    return { type: "input_json_delta", partial_json: text };
  }

  end(): JsonObject[] {
    return [];
  }
}

/** Reasoning. Its signature has in it all that must go back to whoever thought it. */
export class ThoughtBlock implements AnswerBlock {
  readonly start: JsonObject = { type: "thinking", thinking: "", signature: "" };
  readonly whole = true;
  readonly #from: { provider: string; model: string };
  readonly #pieces: Reasoning[] = [];
  #text = "";

  constructor(from: { provider: string; model: string }) {
    this.#from = from;
  }

  get empty(): boolean {
    return this.#pieces.length === 0;
  }

  get block(): JsonObject {
    return { type: "thinking", thinking: this.#text, signature: this.packed };
  }

  get packed(): string {
    return packReasoning(this.#pieces);
  }

  push(text: string, field: string): JsonObject {
    this.#text += text;
    const known = this.#pieces.find(({ origin }) => origin.field === field);
    if (known === undefined) {
      this.#pieces.push({ type: "reasoning", text, origin: { ...this.#from, field } });
    } else known.text += text;
    return { type: "thinking_delta", thinking: text };
  }

  /** Adds what is not shown, and must go back. */
  details(details: readonly Json[], field: string): void {
    const known = this.#pieces.find(({ origin }) => origin.field === field);
    const before = known?.origin.payload;
    if (Array.isArray(before)) joinDetails(before, details);
    else {
      const payload = joinDetails([], details);
      this.#pieces.push({ type: "reasoning", text: "", origin: { ...this.#from, field, payload } });
    }
  }

  end(): JsonObject[] {
    return [{ type: "signature_delta", signature: this.packed }];
  }
}

/** What is kept of reasoning that nobody asked to see. */
export class RedactedBlock implements AnswerBlock {
  readonly start: JsonObject;
  readonly whole = true;

  constructor(data: string) {
    this.start = { type: "redacted_thinking", data };
  }

  get block(): JsonObject {
    return this.start;
  }

  end(): JsonObject[] {
    return [];
  }
}
