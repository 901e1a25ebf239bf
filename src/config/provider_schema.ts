import { type Static, Type } from "@sinclair/typebox";
import { MAX_PROVIDER_KEY_LENGTH } from "../core/limits.ts";
import { Duration } from "./duration_schema.ts";
import { PROVIDER_KINDS } from "./known_providers.ts";

const closed = { additionalProperties: false } as const;

/** How a model may use tools: a choice for the model, or the name of one tool. */
export const ToolChoice = Type.Union([
  Type.Literal("auto"),
  Type.Literal("none"),
  Type.Literal("required"),
  Type.Object({
    name: Type.String({ minLength: 1, description: "Full name of the tool that must be called." }),
  }, closed),
], {
  wanted: '"auto", "none", "required" or an object with the name of a tool',
  description: 'Whether and which tool the model must call: "auto", "none", "required", or {name}.',
});
export type ToolChoice = Static<typeof ToolChoice>;

/** What tokens cost, in US dollars per million. */
export const Pricing = Type.Object({
  inputPerMillion: Type.Number({
    minimum: 0,
    description: "US dollars per million input tokens.",
  }),
  outputPerMillion: Type.Number({
    minimum: 0,
    description: "US dollars per million output tokens.",
  }),
  cachedInputPerMillion: Type.Optional(Type.Number({
    minimum: 0,
    description: "US dollars per million input tokens read from the provider's prompt cache.",
  })),
  cacheWritePerMillion: Type.Optional(Type.Number({
    minimum: 0,
    description: "US dollars per million input tokens written to the provider's prompt cache.",
  })),
  reasoningPerMillion: Type.Optional(Type.Number({
    minimum: 0,
    description: "US dollars per million output tokens spent on reasoning.",
  })),
}, {
  ...closed,
  description:
    "Prices of the model, which win over the hub's own table; a call without a price has an unknown cost, never 0.",
});
export type Pricing = Static<typeof Pricing>;

/** What is special about one model of a provider. */
export const ModelOverride = Type.Object({
  maxOutputTokens: Type.Optional(Type.Integer({
    minimum: 1,
    description:
      "Most tokens of one answer, for agents that set no limit, and for clients of providers that want one.",
  })),
  parallelToolCalls: Type.Optional(Type.Boolean({
    description:
      "Whether the model may ask for several tools in one step, for agents that do not say.",
  })),
  toolChoice: Type.Optional(ToolChoice),
  temperature: Type.Optional(Type.Number({
    minimum: 0,
    maximum: 2,
    description: "Sampling temperature of agents that set none.",
  })),
  topP: Type.Optional(Type.Number({
    exclusiveMinimum: 0,
    maximum: 1,
    description: "Nucleus sampling of agents that set none.",
  })),
  pricing: Type.Optional(Pricing),
  maxConcurrent: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: 100_000,
    description:
      "Calls of this model at the same time; twice as many wait, as they do for their provider.",
  })),
  contextWindow: Type.Optional(Type.Integer({
    minimum: 256,
    maximum: 100_000_000,
    description:
      "Tokens that the model can read and write at a time. Default: the hub's own table, else 131072.",
  })),
  contextBuffer: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: 10_000_000,
    description:
      "Tokens of the window that runs keep free. Default: a sixteenth of it, at most 8192.",
  })),
  tokenizer: Type.Optional(Type.String({
    pattern: "^(tiktoken:[A-Za-z0-9._-]{1,100}|anthropic|claude|gemini|google|heuristic)$",
    wanted:
      "tiktoken: and an encoding or a model of OpenAI's, anthropic, claude, gemini, google or heuristic",
    description: "How the model's tokens are counted. Default: by provider and name.",
  })),
  vision: Type.Optional(Type.Boolean({
    description:
      "Whether the model takes images; in runs of agents, false replaces them by a note.",
  })),
}, {
  ...closed,
  description:
    "Settings of one model in runs of agents, which win over them; its prices and its limit count everywhere.",
});
export type ModelOverride = Static<typeof ModelOverride>;

/** Timers of a call to a provider, in milliseconds. */
export const Timeouts = Type.Object({
  connectMs: Duration({
    default: 10_000,
    description: "Longest wait for a connection to the provider, TLS included.",
  }),
  firstTokenMs: Duration({
    default: 60_000,
    description:
      "Longest wait from the request to the first content; for an answer that is not streamed, to its first byte.",
  }),
  inactivityMs: Duration({
    default: 30_000,
    description: "Longest silence between two reads of an answer; every byte restarts it.",
  }),
  totalMs: Duration({
    default: 600_000,
    description: "Longest duration of one call from its start to its last byte.",
  }),
}, {
  ...closed,
  default: {},
  description: "Timers of calls to providers; a provider's own win.",
});
export type Timeouts = Static<typeof Timeouts>;

/** Timers that a provider sets itself; those left out are the general ones. */
export const ProviderTimeouts = Type.Object({
  connectMs: Type.Optional(Duration({ description: "As `timeouts.connectMs`." })),
  firstTokenMs: Type.Optional(Duration({ description: "As `timeouts.firstTokenMs`." })),
  inactivityMs: Type.Optional(Duration({ description: "As `timeouts.inactivityMs`." })),
  totalMs: Type.Optional(Duration({ description: "As `timeouts.totalMs`." })),
}, { ...closed, description: "Timers of this provider; those left out are the general ones." });
export type ProviderTimeouts = Static<typeof ProviderTimeouts>;

const ModelName = Type.String({ minLength: 1, maxLength: 200 });

/** An upstream that serves models. */
export const Provider = Type.Object({
  kind: Type.Optional(Type.Union(PROVIDER_KINDS.map((kind) => Type.Literal(kind)), {
    description:
      "Dialect and quirks. Default: the provider's name when that is a kind, else openai-compatible.",
  })),
  baseUrl: Type.Optional(Type.String({
    minLength: 1,
    description:
      "Where its API begins, such as http://127.0.0.1:8000/v1. Default: the known address of its kind.",
  })),
  apiKey: Type.Optional(Type.String({
    minLength: 1,
    maxLength: MAX_PROVIDER_KEY_LENGTH,
    secret: true,
    wanted: `a key of 1 to ${MAX_PROVIDER_KEY_LENGTH} characters, best written as \${VARIABLE}`,
    description: "Key, best written as ${VARIABLE}. Default: the kind's own environment variable.",
  })),
  apiKeys: Type.Optional(Type.Array(
    Type.String({ minLength: 1, wanted: "a key, best written as ${VARIABLE}" }),
    {
      minItems: 1,
      uniqueItems: true,
      secret: true,
      wanted: "a list of keys with at least one entry",
      description:
        "Several keys instead of apiKey; requests are spread over them, and the next one is taken when one is refused (401, 402, 403, 429).",
    },
  )),
  headers: Type.Optional(Type.Record(
    Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }),
    Type.String({ wanted: "the text of a header" }),
    {
      ...closed,
      secret: true,
      wanted: "the name of a header: letters, digits and hyphens",
      description:
        "Headers of every request to this provider, in place of the hub's of the same name.",
    },
  )),
  models: Type.Optional(Type.Union([
    Type.Array(ModelName, { uniqueItems: true }),
    Type.Record(Type.String({ pattern: "^.{1,200}$" }), ModelOverride, {
      ...closed,
      wanted: "the name of a model",
    }),
  ], {
    wanted: "a list of model names, or an object from model name to its settings",
    description:
      "The models it serves, as names or with settings. Only these can be called; without it any provider/model passes.",
  })),
  timeouts: Type.Optional(ProviderTimeouts),
  maxConcurrent: Type.Integer({
    minimum: 1,
    maximum: 100_000,
    default: 256,
    description:
      "Calls to this provider at the same time. When it is full the next target is taken; without one, calls wait, and past that are refused as overloaded.",
  }),
  maxQueued: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: 100_000,
    description: "Calls that may wait for their turn. Default: twice `maxConcurrent`.",
  })),
  queueTimeoutMs: Duration({
    default: 5000,
    description: "Longest wait of a call for its turn.",
  }),
  toolDescriptionChars: Type.Optional(Type.Integer({
    minimum: 64,
    maximum: 65_536,
    description:
      "Longest description of a tool that the provider takes, in characters; those of agents' tools are cut to it. Default: 1024 for openai, else none.",
  })),
  allowedFields: Type.Optional(Type.Array(
    Type.String({ minLength: 1, maxLength: 100 }),
    {
      uniqueItems: true,
      maxItems: 100,
      description:
        "Further fields that requests of API keys with limits may have: fields of this provider that change neither the model nor the size of an answer.",
    },
  )),
  maxRetries: Type.Integer({
    minimum: 0,
    maximum: 3,
    default: 2,
    description:
      "Further tries on the same target before the next one is taken; a 429 goes on at once when there is another.",
  }),
}, { ...closed, default: {}, description: "An upstream that serves models." });
export type Provider = Static<typeof Provider>;
