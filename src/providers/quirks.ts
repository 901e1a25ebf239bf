import type { ProviderKind } from "../config/known_providers.ts";
import { MESSAGES } from "../wire/anthropic/messages_dialect.ts";
import type { ChatDialect } from "../wire/chat_dialect.ts";
import type { EmbeddingsDialect } from "../wire/embeddings_dialect.ts";
import { GEMINI } from "../wire/gemini/gemini_dialect.ts";
import { GEMINI_EMBEDDINGS } from "../wire/gemini/gemini_embeddings.ts";
import { traitsOf } from "../wire/gemini/model_traits.ts";
import { OLLAMA } from "../wire/ollama/ollama_dialect.ts";
import { OLLAMA_EMBEDDINGS } from "../wire/ollama/ollama_embeddings.ts";
import type { ChatRequestQuirks } from "../wire/openai_chat/encode_request.ts";
import type { WireName } from "../wire/wire_dialect.ts";
import type { HeaderPairs } from "./transport.ts";

/** What differs between providers. */
export interface Quirks extends ChatRequestQuirks {
  /** How requests are said to a provider that does not speak chat completions; null for one that does. */
  dialect: ChatDialect | null;
  /** How one with a dialect of its own is asked for embeddings; null when it has none. */
  embeddings: EmbeddingsDialect | null;
  /** Dialects beside chat completions that it serves itself, so that requests in them pass as they are. */
  speaks: readonly Exclude<WireName, "chat">[];
  /** Longest description of a tool that it takes, in characters; agents' tools are cut to it. Null where it sets none. */
  toolDescriptionChars: number | null;
  /** Fields that requests of API keys with limits may have beside those of `request_fields.ts`. */
  allowedFields: readonly string[];
  /** The fields that carry its key. */
  credential(apiKey: string): HeaderPairs;
  /** What OpenTelemetry calls the provider; left out where any may stand behind it: then it has its configured name. */
  traceName?: string;
  /** Fields that say together which application calls. */
  attribution: HeaderPairs;
  /** Names under which the provider reads that; an operator who sets one of them attributes the calls elsewhere. */
  attributionNames: readonly string[];
}

const COMPATIBLE: Quirks = {
  dialect: null,
  embeddings: null,
  speaks: [],
  toolDescriptionChars: null,
  allowedFields: [],
  credential: (apiKey) => [["authorization", `Bearer ${apiKey}`]],
  attribution: [],
  attributionNames: [],
  maxTokensField: "max_tokens",
  toolCallIdLength: 40,
  assistantAfterTools: false,
  reasoningAlways: false,
  parallelToolCalls: true,
  streamOptions: true,
  answerSchema: "strict",
  answerWithTools: true,
  toolImages: () => false,
  toolFailures: "text",
};

/** One row a kind of provider; code asks the row, never the name. */
export const QUIRKS: Readonly<Record<ProviderKind, Quirks>> = {
  "openai": {
    ...COMPATIBLE,
    traceName: "openai",
    speaks: ["responses"],
    toolDescriptionChars: 1024,
    maxTokensField: "max_completion_tokens",
  },
  "anthropic": {
    ...COMPATIBLE,
    traceName: "anthropic",
    dialect: MESSAGES,
    speaks: ["messages"],
    credential: (apiKey) => [["x-api-key", apiKey]],
    toolImages: () => true,
    toolFailures: "member",
    answerSchema: "loose",
  },
  "google": {
    ...COMPATIBLE,
    traceName: "gcp.gemini",
    dialect: GEMINI,
    embeddings: GEMINI_EMBEDDINGS,
    credential: (apiKey) => [["x-goog-api-key", apiKey]],
    toolImages: (model) => traitsOf(model).signedCalls,
    toolFailures: "member",
    answerSchema: "loose",
    answerWithTools: false,
  },
  "openrouter": {
    ...COMPATIBLE,
    traceName: "openrouter",
    attribution: [
      ["http-referer", "https://github.com/loophub/loophub"],
      ["x-openrouter-title", "Loophub"],
    ],
    attributionNames: ["http-referer", "x-openrouter-title", "x-title"],
  },
  "groq": {
    ...COMPATIBLE,
    traceName: "groq",
    maxTokensField: "max_completion_tokens",
    answerSchema: "none",
    answerWithTools: false,
  },
  "mistral": {
    ...COMPATIBLE,
    traceName: "mistral_ai",
    toolCallIdLength: 9,
    assistantAfterTools: true,
    streamOptions: false,
  },
  "deepseek": {
    ...COMPATIBLE,
    traceName: "deepseek",
    reasoningAlways: true,
    answerSchema: "none",
  },
  "xai": { ...COMPATIBLE, traceName: "x_ai" },
  "together": { ...COMPATIBLE, traceName: "together" },
  "fireworks": { ...COMPATIBLE, traceName: "fireworks" },
  "cerebras": {
    ...COMPATIBLE,
    traceName: "cerebras",
    maxTokensField: "max_completion_tokens",
    answerWithTools: false,
  },
  "ollama": {
    ...COMPATIBLE,
    traceName: "ollama",
    dialect: OLLAMA,
    embeddings: OLLAMA_EMBEDDINGS,
    parallelToolCalls: false,
    answerSchema: "loose",
    answerWithTools: false,
  },
  "openai-compatible": { ...COMPATIBLE, answerWithTools: false },
  "demo": COMPATIBLE,
};
