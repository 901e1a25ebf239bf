import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Usage } from "../../core/usage.ts";
import { member } from "../chat_fields.ts";

/** What a response is known by before there is anything of it. */
export interface ResponseFacts {
  id: string;
  /** Seconds since 1970. */
  createdAt: number;
  /** As the client asked for it. */
  model: string;
  /** The tools that the model is offered, as the client sent them. */
  tools: Json[];
}

/** A response that has not begun: the request's settings, as OpenAI gives them back. */
export function newResponse(
  request: JsonObject,
  { id, createdAt, model, tools }: ResponseFacts,
): JsonObject {
  const said = (name: string): Json => member(request, name);
  const reasoning = said("reasoning");
  const text = said("text");
  return {
    id,
    object: "response",
    created_at: createdAt,
    status: "in_progress",
    background: said("background") ?? false,
    completed_at: null,
    error: null,
    incomplete_details: null,
    instructions: said("instructions"),
    max_output_tokens: said("max_output_tokens"),
    max_tool_calls: said("max_tool_calls"),
    metadata: said("metadata") ?? {},
    model,
    output: [],
    parallel_tool_calls: said("parallel_tool_calls") ?? true,
    previous_response_id: said("previous_response_id"),
    prompt_cache_key: said("prompt_cache_key"),
    reasoning: isJsonObject(reasoning) ? reasoning : { effort: null, summary: null },
    safety_identifier: said("safety_identifier"),
    service_tier: said("service_tier") ?? "default",
    store: said("store") ?? true,
    temperature: said("temperature"),
    text: { format: { type: "text" }, ...(isJsonObject(text) ? text : {}) },
    tool_choice: said("tool_choice") ?? "auto",
    tools,
    top_logprobs: said("top_logprobs") ?? 0,
    top_p: said("top_p"),
    truncation: "disabled",
    usage: null,
    user: said("user"),
  };
}

/** `usage` as Responses count it. */
export function toResponsesUsage(usage: Usage): JsonObject {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens, cache_write_tokens: 0 },
    output_tokens: usage.completionTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.totalTokens,
  };
}
