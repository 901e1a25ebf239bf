import { readAnswer } from "../../core/answer_format.ts";
import { HubError } from "../../core/error.ts";
import type { FinishReason, HubEvent } from "../../core/event.ts";
import { createFold } from "../../core/fold.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { RunFacts } from "../../core/run_facts.ts";
import type { Usage } from "../../core/usage.ts";
import { toolResultOf } from "../../inference/tool_result_text.ts";
import { type AnswerPiece, toChatUsage } from "../../wire/chat_answer.ts";
import { toRunError } from "../routes/run_failure.ts";

/** How a run is told as a chat completion. */
export interface RunPiecesOptions {
  /** The answer is JSON: nothing is said before it is known to fit. */
  isJson: boolean;
  /** Tells what tools have answered. */
  toolResults: boolean;
}

/** The end of an answer. */
export interface RunEnd {
  pieces: AnswerPiece[];
  finishReason: string;
  usage: JsonObject;
}

type Finish = Extract<HubEvent, { type: "finish" }>;

/** Between what the model says in one step and in the next. */
const GAP = "\n\n";

/**
 * Reads the events of a run as pieces of a chat completion: what its steps say, one below the other, what they think,
 * and on request what tools have answered. Calls are never told as calls: nobody but the hub is to make them.
 */
export class RunPieces {
  readonly #options: RunPiecesOptions;
  readonly #fold = createFold();
  #hasSpoken = false;
  #mustPart = false;
  #value: Json | undefined;
  #error: NonNullable<RunFacts["error"]> | null = null;

  constructor(options: RunPiecesOptions) {
    this.#options = options;
  }

  /** What the event, which does not end the run, says. */
  take(event: HubEvent): AnswerPiece[] {
    if (this.#options.toolResults) this.#fold.apply(event);
    switch (event.type) {
      case "step-start":
      case "step-reset":
        this.#mustPart = this.#hasSpoken;
        return [];
      case "text-delta":
        return this.#options.isJson || event.delta === "" ? [] : [this.#say(event.delta)];
      case "reasoning-delta":
        return event.delta === "" ? [] : [{ type: "reasoning", text: event.delta }];
      case "source-url": {
        const { type, url, title } = event;
        const link = { type, url, ...(title === undefined ? {} : { title }) };
        return this.#options.isJson ? [] : [{ type: "source", link }];
      }
      case "file":
        return this.#options.isJson ? [] : [{ type: "image", url: event.url }];
      case "tool-output-available":
        return event.preliminary === true ? [] : this.#result(event.toolCallId);
      case "tool-input-error":
      case "tool-output-error":
      case "tool-output-denied":
        return this.#result(event.toolCallId);
      case "data":
        this.#value = readAnswer(event) ?? this.#value;
        return [];
      case "error": {
        const { errorText, code, retryable } = event;
        this.#error = { errorText, code, retryable };
        return [];
      }
      default:
        return [];
    }
  }

  /** The end of the run. Throws what it has failed with: then there is no answer. */
  end({ finishReason, usage }: Finish): RunEnd {
    if (finishReason === "aborted") throw new HubError("aborted", "The run was stopped");
    if (finishReason === "error") {
      throw toRunError(
        this.#error ?? { errorText: "The run failed", code: "internal_error", retryable: false },
      );
    }
    if (!this.#options.isJson) {
      return { pieces: [], finishReason: REASONS[finishReason] ?? "stop", usage: toUsage(usage) };
    }
    if (this.#value === undefined) {
      throw new HubError("upstream_rejected", "The run has ended without JSON that fits", {
        status: 502,
        clientCode: "answer_invalid",
      });
    }
    const text = JSON.stringify(this.#value);
    return { pieces: [{ type: "text", text }], finishReason: "stop", usage: toUsage(usage) };
  }

  #say(delta: string): AnswerPiece {
    const text = this.#mustPart ? GAP + delta : delta;
    this.#mustPart = false;
    this.#hasSpoken = true;
    return { type: "text", text };
  }

  #result(toolCallId: string): AnswerPiece[] {
    if (!this.#options.toolResults) return [];
    const part = this.#fold.toolPart(toolCallId);
    const result = part === undefined ? null : toolResultOf(part, part.toolName);
    if (part === undefined || result === null) return [];
    return [{
      type: "tool-results",
      results: [{
        tool_call_id: toolCallId,
        name: part.toolName,
        input: part.input ?? null,
        content: result.text,
        is_error: result.isError,
      }],
    }];
  }
}

/** How ends are called; where a bound of the run has made the agent conclude, the answer may be less than it would be. */
const REASONS: Readonly<Partial<Record<FinishReason, string>>> = {
  "length": "length",
  "content-filter": "content_filter",
  "max-steps": "length",
  "max-time": "length",
  "max-tokens": "length",
  "max-cost": "length",
  "max-output": "length",
  "token-limit": "length",
};

function toUsage(usage: Usage): JsonObject {
  return toChatUsage({
    prompt: usage.promptTokens,
    completion: usage.completionTokens,
    total: usage.totalTokens,
    cached: usage.cachedTokens,
    reasoning: usage.reasoningTokens,
    ...usage.cacheWriteTokens === undefined ? {} : { cacheWrite: usage.cacheWriteTokens },
  });
}
