import { API_KEY_FORM } from "../core/api_key_form.ts";

/** Kinds of provider: each is a row of the quirks table in `providers/`. */
export const PROVIDER_KINDS = [
  "openai",
  "anthropic",
  "google",
  "openrouter",
  "groq",
  "mistral",
  "deepseek",
  "xai",
  "together",
  "fireworks",
  "cerebras",
  "ollama",
  "openai-compatible",
  "demo",
] as const;

/** A provider's dialect and quirks, by name. */
export type ProviderKind = typeof PROVIDER_KINDS[number];

/** A provider that the hub can use without a configuration file. */
export interface KnownProvider {
  /** Its name, and its kind. */
  name: ProviderKind;
  /** The environment variable that holds its key, and by being set enables it. */
  envVar: string;
  /** Another variable that the vendor's own tools read, looked at when the first is not set. */
  otherVar?: string;
  /** Where its API lives, without a trailing slash. */
  baseUrl: string;
  /** What the default agent calls when nothing else is chosen: calls tools over chat completions. */
  defaultModel: string;
}

/**
 * Providers found by their environment variable; with several set, the first one gives the default model.
 * Variables, addresses and models are those of the vendors' own documentation as of November 2026.
 */
export const KNOWN_PROVIDERS: readonly KnownProvider[] = [
  {
    name: "openai",
    envVar: "OPENAI_API_KEY",
    baseUrl: "https://api.openai.com/v1",
    // Newer minis reason by default, and then refuse tools on chat completions.
    defaultModel: "gpt-5.4-mini",
  },
  {
    name: "anthropic",
    envVar: "ANTHROPIC_API_KEY",
    baseUrl: "https://api.anthropic.com/v1",
    defaultModel: "claude-sonnet-5-5",
  },
  {
    name: "google",
    envVar: "GEMINI_API_KEY",
    otherVar: "GOOGLE_API_KEY",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta",
    defaultModel: "gemini-3.8-flash",
  },
  {
    name: "openrouter",
    envVar: "OPENROUTER_API_KEY",
    baseUrl: "https://openrouter.ai/api/v1",
    defaultModel: "openrouter/auto",
  },
  {
    name: "groq",
    envVar: "GROQ_API_KEY",
    baseUrl: "https://api.groq.com/openai/v1",
    defaultModel: "openai/gpt-oss-120b",
  },
  {
    name: "mistral",
    envVar: "MISTRAL_API_KEY",
    baseUrl: "https://api.mistral.ai/v1",
    defaultModel: "mistral-medium-latest",
  },
  {
    name: "deepseek",
    envVar: "DEEPSEEK_API_KEY",
    baseUrl: "https://api.deepseek.com",
    defaultModel: "deepseek-flash",
  },
  {
    name: "xai",
    envVar: "XAI_API_KEY",
    baseUrl: "https://api.x.ai/v1",
    defaultModel: "grok-4.3",
  },
  {
    name: "together",
    envVar: "TOGETHER_API_KEY",
    baseUrl: "https://api.together.ai/v1",
    defaultModel: "openai/gpt-oss-120b",
  },
  {
    name: "fireworks",
    envVar: "FIREWORKS_API_KEY",
    baseUrl: "https://api.fireworks.ai/inference/v1",
    defaultModel: "accounts/fireworks/models/gpt-oss-120b",
  },
  {
    name: "cerebras",
    envVar: "CEREBRAS_API_KEY",
    baseUrl: "https://api.cerebras.ai/v1",
    defaultModel: "gpt-oss-120b",
  },
];

/** What the environment has for a provider. */
export type EnvironmentKey =
  | { kind: "none" }
  | { kind: "foreign"; variable: string }
  | { kind: "key"; key: string; variable: string };

/**
 * Looks for a provider's key in the environment. A key of a hub is `foreign`: the hub's clients carry theirs in
 * `OPENAI_API_KEY`, and no vendor must ever get it.
 */
export function keyInEnvironment(
  { envVar, otherVar }: KnownProvider,
  env: (name: string) => string | undefined,
): EnvironmentKey {
  for (const variable of otherVar === undefined ? [envVar] : [envVar, otherVar]) {
    const key = env(variable);
    if (key === undefined || key === "") continue;
    return API_KEY_FORM.test(key) ? { kind: "foreign", variable } : { kind: "key", key, variable };
  }
  return { kind: "none" };
}

/** Where a local Ollama listens; its own API is below `/api`. */
export const OLLAMA_ORIGIN = "http://127.0.0.1:11434";

/** The models of the built-in provider that needs no key: one answers, one calls the tools it is offered. */
export const DEMO_MODELS: readonly string[] = ["talk", "tools"];

/** The row of a provider name or kind, if the hub knows it. */
export function findKnownProvider(name: string): KnownProvider | undefined {
  return KNOWN_PROVIDERS.find((row) => row.name === name);
}

/** Where providers of this kind listen when the configuration names no `baseUrl`. */
export function defaultBaseUrl(kind: ProviderKind): string | undefined {
  return kind === "ollama" ? `${OLLAMA_ORIGIN}/api` : findKnownProvider(kind)?.baseUrl;
}
