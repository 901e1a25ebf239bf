import type { Projection } from "./context_events.ts";
import type { Json, JsonObject, JsonSchema } from "./json.ts";
import type { ModelUse } from "./model_use.ts";
import type { Usage } from "./usage.ts";

/** A piece of user input. `url` is http(s) or a `data:` URL. */
export type UserContent =
  | { type: "text"; text: string }
  | { type: "image"; url: string; mediaType: string }
  | { type: "file"; url: string; mediaType: string; filename?: string };

/**
 * Reasoning as a provider wants it back: only ever sent to the same provider and model.
 * `field` is the wire field it came in (`reasoning_content`, `reasoning`, `reasoning_details` …), `payload` that field's value when it is not the plain text.
 */
export interface ReasoningOrigin {
  provider: string;
  model: string;
  field: string;
  payload?: Json;
}

/** A piece of an assistant message in the history sent to a model. */
export type AssistantContent =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string; origin: ReasoningOrigin }
  | { type: "tool-call"; toolCallId: string; toolName: string; inputText: string };

/** What the model reads for one tool call. Images travel behind the step's tool messages where a dialect needs that. */
export interface ModelToolResult {
  toolCallId: string;
  toolName: string;
  text: string;
  images: { url: string; mediaType: string }[];
  isError: boolean;
}

/** One message of the history in the hub's own words; a provider's dialect turns it into wire messages. */
export type ModelMessage =
  | { role: "system"; text: string }
  | { role: "user"; content: UserContent[] }
  | { role: "assistant"; content: AssistantContent[] }
  | { role: "tool"; results: ModelToolResult[] };

/** A tool as the model sees it. `name` is already a wire name. */
export interface FunctionDefinition {
  name: string;
  description: string;
  parameters: JsonSchema;
  strict: boolean;
}

/** `auto` leaves the choice to the model, `none` forbids calls, `required` wants one, an object names one (wire name). */
export type ToolChoice = "auto" | "none" | "required" | { name: string };

/** One model call, independent of any provider. */
export interface ModelRequest {
  messages: ModelMessage[];
  tools: FunctionDefinition[];
  toolChoice?: ToolChoice;
  /** The run has called a tool already: a model's own choice that forces a call holds no more. */
  hasCalled?: boolean;
  parallelToolCalls?: boolean;
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  /**
   * Structured output: JSON that fits a schema, held to it unless `strict` is false; any JSON object where that is null.
   * `soft`: the model was told in words too, so that a provider is asked for as much as it can do.
   */
  responseFormat?: { name: string; schema: JsonSchema | null; strict?: boolean; soft?: true };
  /** Further wire fields of the agent's configuration (`reasoning_effort` …), copied as they are. */
  extra?: JsonObject;
}

/** A piece of an answer's text: UTF-16 code units from its beginning, `end` not included. */
export interface TextSpan {
  start: number;
  end: number;
}

/** Why the model stopped. `unknown` stands for a reason the dialect does not list. */
export type ModelFinishReason = "stop" | "length" | "content-filter" | "tool-calls" | "unknown";

/**
 * What a provider's decoder makes of an answer. `index` numbers the calls of one answer from 0.
 * A call's `start` comes once, before its deltas; `response-start` comes first, `finish` last.
 */
export type ModelEvent =
  | { type: "response-start"; provider: string; model: string; attempt: number }
  /** `refusal`: the model says why it does not answer. `logprobs` are the dialect's own items for these tokens. */
  | { type: "text-delta"; delta: string; refusal?: true; logprobs?: Json[] }
  | { type: "reasoning-delta"; delta: string; field: string }
  | { type: "reasoning-payload"; field: string; payload: Json }
  | { type: "tool-call-start"; index: number; providerCallId: string; toolName: string }
  | { type: "tool-call-delta"; index: number; delta: string }
  /** A web page (http or https) that the answer names; `cited` is the piece of the answer's text that rests on it. */
  | { type: "source-url"; url: string; title?: string; cited?: TextSpan }
  /** A file that the model made. `url` is a `data:` URL, the address of a provider, or a link to a stored file. */
  | { type: "file"; mediaType: string; url: string }
  /** A file that the model made and that passed a bound; `bytes` is 0 when its size is not known. */
  | { type: "file-left-out"; mediaType: string; bytes: number; reason: string }
  | { type: "usage"; usage: Usage; costMicros?: number }
  | { type: "finish"; finishReason: ModelFinishReason };

/** Facts of a call that its usage row carries. */
export interface ModelCallContext {
  signal: AbortSignal;
  runId?: string;
  sessionId?: string;
  step?: number;
  /** 0 for the first try of a step; counts the tries the loop makes after a failure in mid-answer. */
  stepAttempt: number;
  /** The answer is no part of the run's log. */
  isSummary?: true;
  /**
   * Called for each try that a provider is to be paid for, whole or not, at its end; of a call that is stopped, within a
   * turn of the event loop. A model that never calls it is taken at its answer's word.
   */
  onUsed?(use: ModelUse): void;
  /** How much room the request leaves, where somebody keeps watch over it. */
  projection?: Projection;
}

/**
 * Calls a model and yields its events, those of one network read together.
 * Retries and failover before the first event are its own business; a failure after it throws a `HubError`
 * (retryable by its kind), and the caller decides. Aborting the signal ends it with the signal's reason.
 */
export type CallModel = (
  request: ModelRequest,
  context: ModelCallContext,
) => AsyncIterable<ModelEvent[]>;
