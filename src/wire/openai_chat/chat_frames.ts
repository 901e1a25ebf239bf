import { isJsonObject } from "../../core/json.ts";
import { hasError, readProviderError } from "../errors/read_error.ts";
import { mayHaveError } from "../errors/scrub_frame.ts";
import type { Redact } from "../provider_text.ts";
import type { FrameReader, TapFacts } from "../sse_tap.ts";
import { readUsage } from "./chat_usage.ts";
import { parseFrame } from "../parse_frame.ts";

/** Reads the frames of a chat stream, or of a legacy completion, whose choices have a `text` instead of a `delta`. */
export class ChatFrames implements FrameReader {
  readonly #hideUsage: boolean;
  readonly #choices: number;
  readonly #redact: Redact;
  /** Choices with a finish reason; only kept when there are several. */
  #finished: Set<unknown> | null = null;

  /** `hideUsage`: the frame with nothing but usage is not the client's. `choices`: how many were asked for. */
  constructor(options: { hideUsage: boolean; choices: number; redact: Redact }) {
    this.#hideUsage = options.hideUsage;
    this.#choices = options.choices;
    this.#redact = options.redact;
  }

  wants(text: string): boolean {
    return text.includes('"usage"') || text.includes("[DONE]") || mayHaveError(text) ||
      /"finish_reason"\s*:\s*"[^"]/.test(text);
  }

  read(data: string, facts: TapFacts): boolean {
    if (!data.startsWith("{")) {
      if (data.trimEnd() === "[DONE]") facts.done = true;
      return false;
    }
    let chunk: unknown;
    try {
      chunk = parseFrame(data);
    } catch {
      facts.malformedFrames++;
      return false;
    }
    if (!isJsonObject(chunk)) return false;
    if (hasError(chunk)) {
      facts.error = readProviderError(chunk, this.#redact);
      return true;
    }
    const choices = Array.isArray(chunk["choices"]) ? chunk["choices"].filter(isJsonObject) : [];
    for (const choice of choices) {
      const reason = choice["finish_reason"];
      const ends = typeof reason === "string" && reason !== "";
      if (ends) {
        this.#finish(choice["index"], facts);
        if (facts.finishReasons.length < this.#choices) {
          facts.finishReasons = [...facts.finishReasons, reason];
        }
      }
      const text = choice["text"];
      const says = hasContent(choice["delta"]) || (typeof text === "string" && text !== "");
      if (ends || says) facts.content = true;
    }
    facts.model ??= textOf(chunk["model"]);
    const usage = readUsage(chunk["usage"]);
    if (usage !== null) facts.usage = usage;
    return this.#hideUsage && usage !== null && choices.length === 0;
  }

  #finish(index: unknown, facts: TapFacts): void {
    if (this.#choices > 1) {
      this.#finished ??= new Set();
      if (this.#finished.add(index).size < this.#choices) return;
    }
    facts.finished = true;
  }
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function hasContent(delta: unknown): boolean {
  if (!isJsonObject(delta)) return false;
  for (const [key, value] of Object.entries(delta)) {
    if (key === "role" || value === null || value === "") continue;
    if (Array.isArray(value) && value.length === 0) continue;
    return true;
  }
  return false;
}
