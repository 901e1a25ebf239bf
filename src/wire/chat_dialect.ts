import type { JsonObject } from "../core/json.ts";

/** A request in a provider's own words. */
export interface NativeRequest {
  /** Path below the provider's base URL, query included. */
  path: string;
  body: JsonObject;
  /** Fields that only this request has (beta flags, for one). */
  headers?: readonly (readonly [name: string, value: string])[];
  aliases?: PropertyAliases;
}

/** By tool, what arguments are called there, and what the client calls them. */
export type PropertyAliases = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** What the configuration says of a model, for dialects that must be told what a client may leave out. */
export interface NativeSettings {
  maxOutputTokens?: number;
}

/** What an answer in chat completions says of itself. */
export interface ChatAnswerFacts {
  /** For answers that bring no id of their own. */
  id: string;
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Whether a stream ends with a chunk that has the usage and no choices. */
  includeUsage: boolean;
  /** Those of the request, where it has some. */
  aliases?: PropertyAliases | undefined;
}

/** Makes chat chunks of one streamed answer. */
export interface ChatChunkMaker {
  /**
   * The chunks of one read, cut anywhere. A frame that is no JSON makes none. An error inside the stream makes a chunk
   * `{error: {message, type, param, code}}`. Throws `upstream_malformed` past a bound.
   */
  push(bytes: Uint8Array): JsonObject[];
  /** The chunks that the end of the body brings to light. */
  end(): JsonObject[];
  /** Whether the provider has said that its answer is whole; only then a `[DONE]` follows. */
  readonly done: boolean;
}

/**
 * How a provider that does not speak chat completions is asked in them: requests translate there, answers back. Chat
 * completions, with the fields that gateways have added to it (`reasoning_details`, `cache_control`,
 * `prompt_tokens_details.cache_write_tokens` …), is what the hub passes between dialects.
 */
export interface ChatDialect {
  /**
   * The native request for a chat request, whose `model` is the provider's own name, set up so. Throws `invalid_request` with the
   * `param` that the dialect cannot carry: nothing is dropped in silence.
   */
  encodeRequest(chat: JsonObject, settings?: NativeSettings): NativeRequest;
  /** Begins a streamed answer. */
  startChunks(facts: ChatAnswerFacts): ChatChunkMaker;
  /** A whole answer as a chat completion. Throws `upstream_malformed` for what is none. */
  decodeAnswer(native: JsonObject, facts: ChatAnswerFacts): JsonObject;
  /** The members of a chat error for a native error body. */
  decodeError(native: unknown, status: number): ChatError;
  /** What an error's body says that belongs into its head; left out by dialects that have it there. */
  errorFacts?(native: unknown): ErrorFacts;
}

/** What the head of an error should have said. */
export interface ErrorFacts {
  status?: number;
  retryAfterSeconds?: number;
}

/** An error as chat completions say it. */
export interface ChatError extends JsonObject {
  message: string;
  type: string;
  param: string | null;
  code: string | null;
}
