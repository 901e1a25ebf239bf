import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { NativeRequest, NativeSettings, PropertyAliases } from "../chat_dialect.ts";
import {
  checkFields,
  maxTokensOf,
  member,
  messagesOf,
  present,
  refusal,
  responseFormatOf,
  stopsOf,
} from "../chat_fields.ts";
import { encodeMessages } from "./encode_messages.ts";
import { encodeThinking } from "./encode_thinking.ts";
import { encodeTools } from "./encode_tools.ts";
import { aliasCalls } from "./property_aliases.ts";
import { type ModelTraits, traitsOf } from "./model_traits.ts";
import { STRICT_BOUNDS, toStrictSchema } from "./strict_schema.ts";
import { toDraft2020 } from "./tool_schema.ts";

const CARRIED: ReadonlySet<string> = new Set([
  "messages",
  "tools",
  "tool_choice",
  "response_format",
  "reasoning_effort",
  "thinking",
  "max_tokens",
  "max_completion_tokens",
  "temperature",
  "top_p",
  "top_k",
  "stop",
  "seed",
  "service_tier",
  "cache_control",
]);

const MAX_USER_ID_LENGTH = 256;

/** A chat request for `POST /messages`. */
export function encodeMessagesRequest(
  chat: JsonObject,
  settings: NativeSettings = {},
): NativeRequest {
  checkFields(chat, { carried: CARRIED, provider: "Anthropic's API" });
  const model = String(chat["model"]);
  const traits = traitsOf(model);
  const maxTokens = maxTokensOf(chat) ?? settings.maxOutputTokens ?? traits.defaultMaxTokens;
  const { system, messages, ...seen } = encodeMessages(messagesOf(chat), traits);
  const { thinking, effort, betas } = encodeThinking(chat, { traits, maxTokens, ...seen });
  const { format, instruction } = responseFormat(chat, traits);
  if (instruction !== null) system.push({ type: "text", text: instruction });
  const { members, aliases } = encodeTools(chat, traits);
  const outputConfig = present({ effort, format });
  const body = present({
    model,
    max_tokens: maxTokens,
    system: system.length === 0 ? null : system,
    messages: aliasCalls(messages, aliases),
    ...members,
    thinking,
    output_config: Object.keys(outputConfig).length === 0 ? null : outputConfig,
    ...sampling(chat, { traits, thinking }),
    stop_sequences: stopsOf(chat),
    service_tier: serviceTier(chat),
    metadata: metadata(chat),
    cache_control: member(chat, "cache_control"),
    stream: chat["stream"] === true ? true : null,
  });
  return {
    path: "/messages",
    body,
    ...(aliases.size === 0 ? {} : { aliases: backwards(aliases) }),
    headers: [
      ["anthropic-version", "2023-06-01"],
      ...(betas.length === 0 ? [] : [["anthropic-beta", betas.join(",")] as const]),
    ],
  };
}

function backwards(aliases: PropertyAliases): PropertyAliases {
  const turned = [...aliases].map(([tool, names]) =>
    [tool, new Map([...names].map(([name, alias]) => [alias, name]))] as const
  );
  return new Map(turned);
}

/** Newer models have no sampling to set, and none has with a budget for thinking. */
function sampling(
  chat: JsonObject,
  { traits, thinking }: { traits: ModelTraits; thinking: Json },
): JsonObject {
  const hasBudget = isJsonObject(thinking) && thinking["type"] === "enabled";
  if (traits.sampling === "none" || hasBudget) return {};
  const asked = member(chat, "temperature");
  const temperature = typeof asked === "number" ? Math.min(asked, 1) : asked;
  const topP = member(chat, "top_p");
  const isBoth = temperature !== null && topP !== null;
  const onlyTopP = isBoth && traits.sampling === "one" && temperature === 1;
  const onlyTemperature = isBoth && traits.sampling === "one" && !onlyTopP;
  return {
    temperature: onlyTopP ? null : temperature,
    top_p: onlyTemperature ? null : topP,
    top_k: member(chat, "top_k"),
  };
}

/** A schema that the API can hold the answer to is its own; else the model is told what is wanted. */
function responseFormat(
  chat: JsonObject,
  { structured }: ModelTraits,
): { format: Json; instruction: string | null } {
  const wanted = responseFormatOf(chat);
  if (wanted === null) return { format: null, instruction: null };
  const only = "and nothing else: no code fence, no words around it";
  if (wanted.schema === null) {
    return { format: null, instruction: `Answer with one JSON object ${only}.` };
  }
  const strict = structured ? toStrictSchema(toDraft2020(wanted.schema) as JsonObject) : null;
  const fits = strict !== null && strict.optional <= STRICT_BOUNDS.optional &&
    strict.unions <= STRICT_BOUNDS.unions;
  if (fits) return { format: { type: "json_schema", schema: strict.schema }, instruction: null };
  if (wanted.strict) {
    throw refusal(
      "response_format",
      "Anthropic's API cannot hold this model's answers to this schema; objects must be closed " +
        "and references end, or leave strict out",
    );
  }
  return {
    format: null,
    instruction: `Answer with JSON that matches this JSON Schema ${only}.\n${
      JSON.stringify(wanted.schema)
    }`,
  };
}

function serviceTier(chat: JsonObject): Json {
  const tier = member(chat, "service_tier");
  if (tier === null || tier === "auto") return null;
  if (tier === "default") return "standard_only";
  if (tier === "priority") return "auto";
  throw refusal("service_tier", "service_tier must be auto, default or priority for this model");
}

function metadata(chat: JsonObject): Json {
  const user = member(chat, "safety_identifier") ?? member(chat, "user");
  const isId = typeof user === "string" && user !== "" && user.length <= MAX_USER_ID_LENGTH;
  return isId ? { user_id: user } : null;
}
