import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../../core/json.ts";
import type { NativeRequest } from "../chat_dialect.ts";
import {
  checkFields,
  maxTokensOf,
  member,
  messagesOf,
  present,
  refusal,
  responseFormatOf,
  stopsOf,
  toolChoiceOf,
  toolsOf,
} from "../chat_fields.ts";
import { inlineRefs } from "../inline_refs.ts";
import { mapSubschemas } from "../map_subschemas.ts";
import { encodeMessages } from "./encode_messages.ts";

/** Fields of chat completions with an equivalent, then Ollama's own, which pass as they are. */
const CARRIED: ReadonlySet<string> = new Set([
  "messages",
  "tools",
  "tool_choice",
  "response_format",
  "reasoning_effort",
  "max_tokens",
  "max_completion_tokens",
  "stop",
  "logprobs",
  "top_logprobs",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "seed",
  "presence_penalty",
  "frequency_penalty",
  "repeat_penalty",
  "think",
  "options",
  "keep_alive",
  "truncate",
  "shift",
]);

/** Settings that Ollama takes under the same name, among its options. */
const OPTIONS = [
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "seed",
  "presence_penalty",
  "frequency_penalty",
  "repeat_penalty",
] as const;

const THINK: Readonly<Record<string, Json>> = {
  none: false,
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "max",
  max: "max",
};

/**
 * A chat request for `POST /api/chat`. A prompt that does not fit is refused by Ollama instead of being cut in silence,
 * unless the request itself says `truncate` or `shift`.
 */
export function encodeOllamaRequest(chat: JsonObject): NativeRequest {
  checkFields(chat, { carried: CARRIED, provider: "Ollama" });
  const given = member(chat, "options");
  if (given !== null && !isJsonObject(given)) throw refusal("options", "options must be an object");
  const options = {
    ...given,
    ...present(Object.fromEntries(OPTIONS.map((name) => [name, member(chat, name)]))),
    ...present({ num_predict: maxTokensOf(chat), stop: stopsOf(chat) }),
  };
  const format = responseFormatOf(chat);
  const tools = encodeTools(chat);
  const body = present({
    model: member(chat, "model"),
    messages: encodeMessages(messagesOf(chat)),
    stream: chat["stream"] === true,
    tools: tools.length === 0 ? null : tools,
    format: format === null ? null : format.schema ?? "json",
    think: member(chat, "think") ?? thinkOf(member(chat, "reasoning_effort")),
    options: Object.keys(options).length === 0 ? null : options,
    keep_alive: member(chat, "keep_alive"),
    truncate: member(chat, "truncate") ?? false,
    shift: member(chat, "shift") ?? false,
    logprobs: chat["logprobs"] === true ? true : null,
    top_logprobs: chat["logprobs"] === true ? member(chat, "top_logprobs") : null,
  });
  return { path: "/chat", body };
}

function thinkOf(effort: Json): Json {
  if (effort === null) return null;
  const think = typeof effort === "string" ? THINK[effort] : undefined;
  if (think !== undefined) return think;
  const known = Object.keys(THINK).join(", ");
  throw refusal("reasoning_effort", `reasoning_effort must be one of ${known}`);
}

/** Ollama leaves every choice to the model: what may not be called is not offered, and no call can be forced. */
function encodeTools(chat: JsonObject): JsonObject[] {
  const { mode, names } = toolChoiceOf(chat);
  const tools = toolsOf(chat);
  if (mode === "none") return [];
  if (mode === "required" && tools.length > 0) {
    throw refusal("tool_choice", "Ollama cannot force a call of a tool; use tool_choice auto");
  }
  const offered = names === null ? tools : tools.filter(({ name }) => names.includes(name));
  return offered.map(({ name, description, parameters }, index) => ({
    type: "function",
    function: {
      name,
      description,
      parameters: parameters === null
        ? { type: "object", properties: {} }
        : toOllamaSchema(parameters, `tools[${index}].function.parameters`),
    },
  }));
}

/**
 * A schema in the members that Ollama shows to a model (`type`, `properties`, `required`, `items`, `enum`, `anyOf`,
 * `description`): references written out, `const` and `oneOf` in other words. Others are sent, and not shown there.
 */
export function toOllamaSchema(schema: JsonSchema, param: string): JsonSchema {
  const whole = inlineRefs(schema, { recursion: "any" });
  if (whole === null) {
    throw refusal(param, `${param} is too large once its references are written out`);
  }
  const made = inOllamaWords(whole) as JsonSchema;
  return { ...made, type: "object", properties: made["properties"] ?? {} };
}

function inOllamaWords(value: Json): Json {
  if (!isJsonObject(value)) return value;
  const { const: only, oneOf, ...rest } = mapSubschemas(value, inOllamaWords);
  return {
    ...rest,
    ...(oneOf === undefined ? {} : rest["anyOf"] === undefined ? { anyOf: oneOf } : { oneOf }),
    ...(only === undefined ? {} : { enum: [only] }),
  };
}
