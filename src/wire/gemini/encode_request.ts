import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
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
} from "../chat_fields.ts";
import { encodeMessages } from "./encode_messages.ts";
import { encodeTools, toGeminiSchema } from "./encode_tools.ts";
import { type ModelTraits, traitsOf } from "./model_traits.ts";

const CARRIED: ReadonlySet<string> = new Set([
  "messages",
  "tools",
  "tool_choice",
  "response_format",
  "reasoning_effort",
  "max_tokens",
  "max_completion_tokens",
  "temperature",
  "top_p",
  "top_k",
  "seed",
  "stop",
  "presence_penalty",
  "frequency_penalty",
  "service_tier",
  "modalities",
  "extra_body",
]);

/** Budgets of tokens for models without levels, as Google's own OpenAI-compatible API has them. */
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24576,
  xhigh: 24576,
  max: 24576,
};
const LEVELS: Readonly<Record<string, string>> = {
  none: "MINIMAL",
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
};
const SMALLEST_BUDGET = 128;

/** A chat request for `generateContent` (Gemini API, v1beta). */
export function encodeGeminiRequest(chat: JsonObject): NativeRequest {
  checkFields(chat, { carried: CARRIED, provider: "Gemini" });
  const model = String(chat["model"]);
  const traits = traitsOf(model);
  const { system, contents } = encodeMessages(messagesOf(chat), traits);
  const own = ownFields(chat);
  const tier = member(chat, "service_tier");
  const body = present({
    contents,
    systemInstruction: system.length === 0 ? null : { parts: system },
    ...encodeTools(chat),
    generationConfig: nullIfEmpty(present({
      temperature: member(chat, "temperature"),
      topP: member(chat, "top_p"),
      topK: member(chat, "top_k"),
      seed: member(chat, "seed"),
      maxOutputTokens: maxTokensOf(chat),
      stopSequences: stopsOf(chat),
      presencePenalty: member(chat, "presence_penalty"),
      frequencyPenalty: member(chat, "frequency_penalty"),
      responseModalities: modalities(chat),
      thinkingConfig: own.thinking ?? thinkingConfig(member(chat, "reasoning_effort"), traits),
      ...responseFormat(chat),
    })),
    cachedContent: own.cachedContent,
    safetySettings: own.safetySettings,
    serviceTier: tier === "flex" || tier === "priority" ? tier : null,
  });
  const method = chat["stream"] === true ? ":streamGenerateContent?alt=sse" : ":generateContent";
  return { path: `/${modelPath(model)}${method}`, body };
}

/** The resource of a model; a name is escaped, so that it stays below its collection. */
export function modelPath(model: string): string {
  const [, collection = "models", name = model] = /^(models|tunedModels)\/(.+)$/.exec(model) ?? [];
  return `${collection}/${encodeURIComponent(name)}`;
}

function nullIfEmpty(object: JsonObject): JsonObject | null {
  return Object.keys(object).length === 0 ? null : object;
}

function modalities(chat: JsonObject): Json {
  const wanted = member(chat, "modalities");
  if (!Array.isArray(wanted) || wanted.length === 0) return null;
  if (wanted.includes("audio")) {
    throw refusal("modalities", "Answers in audio do not pass from Gemini to chat completions");
  }
  const names = wanted.map((name) => String(name).toUpperCase());
  return names.join() === "TEXT" ? null : names;
}

function responseFormat(chat: JsonObject): JsonObject {
  const format = responseFormatOf(chat);
  if (format === null) return {};
  return {
    responseMimeType: "application/json",
    responseJsonSchema: format.schema === null
      ? null
      : toGeminiSchema(format.schema, "response_format"),
  };
}

function thinkingConfig(effort: Json, traits: ModelTraits): Json {
  if (effort === null) return null;
  const level = typeof effort === "string" ? LEVELS[effort] : undefined;
  if (typeof effort !== "string" || level === undefined) {
    throw refusal(
      "reasoning_effort",
      `reasoning_effort must be one of ${Object.keys(LEVELS).join(", ")}`,
    );
  }
  const shown = effort === "none" ? {} : { includeThoughts: true };
  if (traits.thinkingLevels) {
    const isBelow = level === "MINIMAL" && !traits.minimalLevel;
    return { thinkingLevel: isBelow ? "LOW" : level, ...shown };
  }
  const least = traits.thinkingOff ? 0 : SMALLEST_BUDGET;
  return { thinkingBudget: BUDGETS[effort] ?? least, ...shown };
}

/** `extra_body.google`, as Google's own OpenAI-compatible API takes it. */
function ownFields(
  chat: JsonObject,
): Record<"thinking" | "cachedContent" | "safetySettings", Json> {
  const extra = member(chat, "extra_body");
  const google = isJsonObject(extra) ? extra["google"] ?? {} : {};
  if (!isJsonObject(google)) throw refusal("extra_body.google", "extra_body.google is no object");
  const {
    thinking_config: thinking = null,
    cached_content: cachedContent = null,
    safety_settings: safetySettings = null,
    ...rest
  } = google;
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) {
    throw refusal(`extra_body.google.${unknown}`, `extra_body.google.${unknown} is not known`);
  }
  return {
    thinking: isJsonObject(thinking) ? camelKeys(thinking) : null,
    cachedContent,
    safetySettings,
  };
}

function camelKeys(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => [
      key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );
}
