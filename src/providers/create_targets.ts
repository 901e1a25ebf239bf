import type { LoadedConfig } from "../config/load.ts";
import { listedModels, splitTargetName } from "../config/model_name.ts";
import { BoundedMap } from "../core/bounded_map.ts";
import { MAX_KNOWN_NAMES } from "../core/limits.ts";
import type { ModelOverride } from "../config/provider_schema.ts";
import { QUIRKS } from "./quirks.ts";
import { sendTranslated } from "./send_translated.ts";
import type { Target } from "./target.ts";
import type { HeaderPairs, SendUpstream } from "./transport.ts";

/** Finds the target of a `provider/model` name; null when there is no such provider, or its list leaves the model out. */
export type FindTarget = (name: string) => Target | null;

/** Makes the finder over the configured providers; targets are made once and kept, up to a bound. */
export function createTargets(
  config: LoadedConfig["config"],
  options: {
    http: SendUpstream;
    demo: SendUpstream;
    /** API keys that the database holds, by provider name; a key in the configuration wins. */
    stored: ReadonlyMap<string, string>;
    now: () => number;
    /** An id for translated answers that bring none. */
    nextId: () => string;
  },
): FindTarget {
  const known = new BoundedMap<string, Target>(MAX_KNOWN_NAMES);
  const headers = new Map<string, HeaderPairs>();
  const senders = new Map<string, SendUpstream>();
  for (const [name, provider] of Object.entries(config.providers)) {
    const quirks = QUIRKS[provider.kind];
    const apiKey = provider.apiKey ?? options.stored.get(name);
    headers.set(name, [
      ["content-type", "application/json"],
      ["user-agent", "loophub/0.1"],
      ...quirks.headers,
      ...(apiKey === undefined ? [] : quirks.credential(apiKey)),
      ...Object.entries(provider.headers ?? {}),
    ]);
    const { kind, baseUrl = "" } = provider;
    const send = kind === "demo" ? options.demo : options.http;
    const { dialect } = quirks;
    senders.set(
      name,
      dialect === null ? send : sendTranslated({ ...options, send, dialect, baseUrl }),
    );
  }
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const parts = splitTargetName(name);
    const provider = parts === null ? undefined : config.providers[parts.provider];
    if (parts === null || provider === undefined) return null;
    const listed = listedModels(provider);
    if (listed !== null && !listed.includes(parts.model)) return null;
    const models = provider.models;
    const override: ModelOverride = models !== undefined && !Array.isArray(models)
      ? models[parts.model] ?? {}
      : {};
    const isDemo = provider.kind === "demo";
    const target: Target = {
      id: name,
      provider: parts.provider,
      model: parts.model,
      chatUrl: `${provider.baseUrl ?? "http://demo.invalid/v1"}/chat/completions`,
      fixedHeaders: headers.get(parts.provider) ?? [],
      quirks: QUIRKS[provider.kind],
      timeouts: { ...config.timeouts, ...provider.timeouts },
      maxRetries: provider.maxRetries,
      override: isDemo
        ? { ...override, pricing: { inputPerMillion: 0, outputPerMillion: 0 } }
        : override,
      send: senders.get(parts.provider) ?? options.http,
    };
    known.set(name, target);
    return target;
  };
}
