import type { JsonObject } from "../core/json.ts";
import type { ChatAnswerFacts } from "./chat_dialect.ts";
import { type SourceLink, toCitation } from "./source_links.ts";

/** A piece of an answer that was decoded from another dialect. */
export type AnswerPiece =
  | { type: "text" | "reasoning" | "refusal"; text: string }
  /** Items of `reasoning_details`. */
  | { type: "details"; details: JsonObject[] }
  | { type: "image"; url: string }
  /** A page that the answer names; `cited` counts in the answer's whole text. */
  | { type: "source"; link: SourceLink }
  /** Of calls that the client is not to make: the hub has made them. */
  | { type: "tool-results"; results: JsonObject[] }
  /** A call, with all its arguments or what there is of them; `extra` are further members of it. */
  | { type: "call"; id: string; name: string; arguments: string; extra?: JsonObject }
  /** More arguments of a call; `index` counts the calls of the answer. */
  | { type: "arguments"; index: number; text: string };

const TEXT_FIELDS = {
  text: "content",
  reasoning: "reasoning_content",
  refusal: "refusal",
} as const;

/** Tokens as chat completions count them: cached ones are part of the prompt, reasoning is part of the completion. */
export interface ChatUsageFacts {
  prompt: number;
  completion: number;
  cached?: number;
  cacheWrite?: number;
  reasoning?: number;
  total?: number;
}

/** The `usage` member. */
export function toChatUsage(usage: ChatUsageFacts): JsonObject {
  return {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.total ?? usage.prompt + usage.completion,
    ...(usage.cached === undefined ? {} : {
      prompt_tokens_details: {
        cached_tokens: usage.cached,
        ...(usage.cacheWrite === undefined ? {} : { cache_write_tokens: usage.cacheWrite }),
      },
    }),
    ...(usage.reasoning === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: usage.reasoning } }),
  };
}

/** Writes the chunks of one streamed answer with one choice. */
export class ChunkWriter {
  readonly #facts: ChatAnswerFacts;
  #begun = false;
  #calls = 0;

  constructor(facts: ChatAnswerFacts) {
    this.#facts = facts;
  }

  /** The chunks of these pieces; the first of all carries the role alone. */
  pieces(pieces: readonly AnswerPiece[], logprobs?: JsonObject): JsonObject[] {
    const chunks = pieces.map((piece) => this.#choice({ delta: this.#delta(piece) }, logprobs));
    return chunks.length === 0 ? [] : [...this.#begin(), ...chunks];
  }

  /** The end of the choice, then the usage where it was asked for. */
  finish(reason: string, usage: JsonObject | null): JsonObject[] {
    const chunks = [...this.#begin(), this.#choice({ delta: {}, finish_reason: reason })];
    if (usage !== null && this.#facts.includeUsage) {
      chunks.push({ ...this.#frame(), choices: [], usage });
    }
    return chunks;
  }

  #begin(): JsonObject[] {
    if (this.#begun) return [];
    this.#begun = true;
    return [this.#choice({ delta: { role: "assistant", content: "" } })];
  }

  #frame(): JsonObject {
    const { id, created, model } = this.#facts;
    return { id, object: "chat.completion.chunk", created, model };
  }

  #choice(members: JsonObject, logprobs?: JsonObject): JsonObject {
    const choice = {
      index: 0,
      finish_reason: null,
      ...(logprobs === undefined ? {} : { logprobs }),
      ...members,
    };
    return { ...this.#frame(), choices: [choice] };
  }

  #delta(piece: AnswerPiece): JsonObject {
    if (piece.type === "details") return { reasoning_details: piece.details };
    if (piece.type === "image") return { images: [toImage(piece.url)] };
    if (piece.type === "source") return { annotations: [toCitation(piece.link)] };
    if (piece.type === "tool-results") return { tool_results: piece.results };
    if (piece.type === "call") {
      return { tool_calls: [{ index: this.#calls++, ...toCall(piece) }] };
    }
    if (piece.type === "arguments") {
      return { tool_calls: [{ index: piece.index, function: { arguments: piece.text } }] };
    }
    return { [TEXT_FIELDS[piece.type]]: piece.text };
  }
}

/** A whole answer with one choice. */
export function toCompletion(
  facts: ChatAnswerFacts,
  answer: {
    pieces: readonly AnswerPiece[];
    finishReason: string;
    usage: JsonObject | null;
    logprobs?: JsonObject;
  },
): JsonObject {
  const { pieces, finishReason, usage, logprobs } = answer;
  const joined = (type: "text" | "reasoning" | "refusal") =>
    pieces.map((piece) => piece.type === type ? piece.text : "").join("");
  const details = pieces.flatMap((piece) => piece.type === "details" ? piece.details : []);
  const images = pieces.flatMap((piece) => piece.type === "image" ? [toImage(piece.url)] : []);
  const annotations = pieces.flatMap((piece) =>
    piece.type === "source" ? [toCitation(piece.link)] : []
  );
  const calls = pieces.flatMap((piece) => piece.type === "call" ? [toCall(piece)] : []);
  const results = pieces.flatMap((piece) => piece.type === "tool-results" ? piece.results : []);
  const text = joined("text");
  const reasoning = joined("reasoning");
  const refusal = joined("refusal");
  const message: JsonObject = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(details.length === 0 ? {} : { reasoning_details: details }),
    ...(images.length === 0 ? {} : { images }),
    ...(annotations.length === 0 ? {} : { annotations }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(results.length === 0 ? {} : { tool_results: results }),
  };
  const { id, created, model } = facts;
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, finish_reason: finishReason, logprobs: logprobs ?? null }],
    ...(usage === null ? {} : { usage }),
  };
}

function toImage(url: string): JsonObject {
  return { type: "image_url", image_url: { url } };
}

function toCall(call: AnswerPiece & { type: "call" }): JsonObject {
  return {
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: call.arguments },
    ...call.extra,
  };
}

/** The id of a call that came without one: unique in the hub, as the answer's is. */
export function mintCallId({ id }: ChatAnswerFacts, index: number): string {
  return `call_${id.replace(/^[a-z]+[-_]/, "")}_${index}`;
}
