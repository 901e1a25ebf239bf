import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { member, refusal } from "../chat_fields.ts";
import { wrongType } from "../openai_chat/scan_request.ts";

/** What a request says beside its input and its tools, as chat completions say it. */
export interface RequestSettings {
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  parallelToolCalls?: boolean;
  /** Further fields of the chat request. */
  extra: JsonObject;
  /** Whether reasoning items show what a client without a stored response must send back. */
  showEncrypted: boolean;
}

/** Acted on elsewhere, echoed, notes for OpenAI's books, or about tools that OpenAI runs. */
const TAKEN: ReadonlySet<string> = new Set([
  "model",
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "stream",
  "stream_options",
  "store",
  "background",
  "previous_response_id",
  "metadata",
  "client_metadata",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "prompt_cache_options",
  "max_tool_calls",
]);

/** Fields of chat completions that many servers know too; a provider that does not will say so. */
const PASSED: ReadonlySet<string> = new Set([
  "seed",
  "stop",
  "top_k",
  "min_p",
  "frequency_penalty",
  "presence_penalty",
  "repetition_penalty",
  "logit_bias",
  "extra_body",
]);

const LOGPROBS = "message.output_text.logprobs";
const INCLUDABLE: ReadonlySet<unknown> = new Set([
  "reasoning.encrypted_content",
  LOGPROBS,
  // Of items that never come here.
  "file_search_call.results",
  "web_search_call.results",
  "web_search_call.action.sources",
  "message.input_image.image_url",
  "computer_call_output.output.image_url",
  "code_interpreter_call.outputs",
]);

/** Reads all other fields. Throws `invalid_request` naming one that no chat can carry. */
export function readSettings(body: JsonObject): RequestSettings {
  const include = includesOf(body);
  const settings: RequestSettings = {
    extra: {},
    showEncrypted: include.includes("reasoning.encrypted_content"),
  };
  const { extra } = settings;
  if (include.includes(LOGPROBS)) extra["logprobs"] = true;
  for (const [name, value] of Object.entries(body)) {
    if (TAKEN.has(name) || value === null) continue;
    if (name === "temperature") settings.temperature = numberIn(name, value);
    else if (name === "top_p") settings.topP = numberIn(name, value);
    else if (name === "max_output_tokens") settings.maxOutputTokens = numberIn(name, value);
    else if (name === "parallel_tool_calls") settings.parallelToolCalls = value === true;
    else if (name === "reasoning") Object.assign(extra, reasoningFields(value));
    else if (name === "text") Object.assign(extra, textFields(value));
    else if (name === "top_logprobs") {
      const count = numberIn(name, value);
      if (count > 0) Object.assign(extra, { logprobs: true, top_logprobs: count });
    } else if (name === "service_tier") {
      if (value !== "auto" && value !== "default") extra[name] = value;
    } else if (PASSED.has(name)) extra[name] = value;
    else if (!saysNothing(name, value)) {
      throw refusal(name, REFUSED.get(name) ?? unknownField(name));
    }
  }
  return settings;
}

const OF_OPENAI = "is kept at OpenAI, and the provider of this model has no equivalent";
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["conversation", `conversation ${OF_OPENAI}: use previous_response_id, or send the whole input`],
  ["prompt", `prompt ${OF_OPENAI}: send instructions and input`],
  ["truncation", "truncation must be disabled: the provider of this model cuts no input"],
]);

function unknownField(name: string): string {
  return `${name.slice(0, 80)} cannot be said to the provider of this model; leave it out`;
}

function saysNothing(name: string, value: Json): boolean {
  if (name === "truncation") return value === "disabled";
  if (value === false) return true;
  if (name !== "include" && Array.isArray(value)) return value.length === 0;
  return name === "include" || (isJsonObject(value) && Object.keys(value).length === 0);
}

function includesOf(body: JsonObject): Json[] {
  const include = member(body, "include") ?? [];
  if (!Array.isArray(include)) throw wrongType("include", include, "a list");
  for (const [index, one] of include.entries()) {
    if (INCLUDABLE.has(one)) continue;
    throw refusal(`include[${index}]`, `include[${index}] names nothing that can be included`);
  }
  return include;
}

function numberIn(name: string, value: Json): number {
  if (typeof value === "number") return value;
  throw wrongType(name, value, "a number");
}

/** How much the model thinks. What it thinks is always shown. */
function reasoningFields(value: Json): JsonObject {
  if (!isJsonObject(value)) throw wrongType("reasoning", value, "an object");
  const effort = member(value, "effort");
  for (const [name, said] of Object.entries(value)) {
    const isKnown = name === "effort" || name === "summary" || name === "generate_summary";
    if (isKnown || said === null || (name === "context" && said === "auto")) continue;
    throw refusal(`reasoning.${name}`, unknownField(`reasoning.${name}`));
  }
  return effort === null ? {} : { reasoning_effort: effort };
}

function textFields(value: Json): JsonObject {
  if (!isJsonObject(value)) throw wrongType("text", value, "an object");
  const fields: JsonObject = {};
  for (const [name, said] of Object.entries(value)) {
    if (said === null) continue;
    if (name === "format") Object.assign(fields, formatFields(said));
    else if (name !== "verbosity") throw refusal(`text.${name}`, unknownField(`text.${name}`));
    else if (said !== "medium") fields["verbosity"] = said;
  }
  return fields;
}

function formatFields(format: Json): JsonObject {
  const type = isJsonObject(format) ? format["type"] : null;
  if (type === "text") return {};
  if (type === "json_object") return { response_format: { type } };
  if (type === "json_schema" && isJsonObject(format)) {
    const { type: _type, ...json_schema } = format;
    return { response_format: { type, json_schema } };
  }
  throw refusal("text.format", "text.format must be text, json_object or json_schema");
}
