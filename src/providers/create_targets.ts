import type { LoadedProvider } from "../config/complete_providers.ts";
import type { LoadedConfig } from "../config/load.ts";
import { listedModels, splitTargetName } from "../config/model_name.ts";
import { BoundedMap } from "../core/bounded_map.ts";
import { MAX_KNOWN_NAMES } from "../core/limits.ts";
import { VERSION } from "../core/version.ts";
import type { ModelOverride } from "../config/provider_schema.ts";
import type { WireName } from "../wire/wire_dialect.ts";
import { joinHeaders, keepConfigured } from "./configured_headers.ts";
import { listPrice } from "./price_table.ts";
import { QUIRKS, type Quirks } from "./quirks.ts";
import { sendEmbeddings } from "./send_embeddings.ts";
import { sendTranslated } from "./send_translated.ts";
import { type Endpoint, NO_MODEL, type Target } from "./target.ts";
import type { HeaderPairs, SendUpstream } from "./transport.ts";

/** Finds the target of a `provider/model` name; null when there is no such provider, or its list leaves the model out. */
export type FindTarget = (name: string) => Target | null;

/** What targets are made with. */
export interface TargetOptions {
  http: SendUpstream;
  /** Providers whose host names may not lead everywhere, and what sends for them. */
  foreign?: { providers: ReadonlySet<string>; http: SendUpstream };
  demo: SendUpstream;
  /** Providers that are being given another key, by name. */
  rotations?: ReadonlyMap<string, KeyRotation>;
  now: () => number;
  /** An id for translated answers that bring none. */
  nextId: () => string;
}

/** Another key of a provider than the one that it has now. */
export interface KeyRotation {
  /** The key from before, which holds beside the new one. */
  former: string;
  /** Whether the new one has been seen to work. */
  isProven: boolean;
  /** Names of the new key and of the former one that no other key ever had. */
  ids: readonly string[];
  /** Called when the new one was taken by the provider. */
  onWorks(): void;
}

/** What all targets of one provider share. */
interface Shared {
  provider: LoadedProvider;
  quirks: Quirks;
  fixedHeaders: HeaderPairs;
  /** The fixed headers with each key of a pool; empty where there is none. */
  pool: readonly HeaderPairs[];
  rotation: KeyRotation | undefined;
  endpoints: Target["endpoints"];
}

const ENDPOINT_PATHS: Readonly<Record<WireName, string>> = {
  chat: "/chat/completions",
  messages: "/messages",
  responses: "/responses",
  embeddings: "/embeddings",
  completions: "/completions",
  pass: "",
};
/** What everyone who speaks chat completions is asked for in OpenAI's words too. */
const OPENAI_WIRES: readonly WireName[] = ["embeddings", "completions", "pass"];

/** Finds targets by name, and those of requests that name no model. */
export interface Targets extends FindTarget {
  /** A provider's target without a model, with the first of its keys; null when there is no such provider. */
  ofProvider(provider: string): Target | null;
}

/** What is special about a provider: by its kind, but for what its settings say. */
function quirksOf({ kind, toolDescriptionChars, allowedFields }: LoadedProvider): Quirks {
  return {
    ...QUIRKS[kind],
    ...(toolDescriptionChars === undefined ? {} : { toolDescriptionChars }),
    ...(allowedFields === undefined ? {} : { allowedFields }),
  };
}

/** Makes the finder over the configured providers; targets are made once and kept, up to a bound. */
export function createTargets(
  config: LoadedConfig["config"],
  options: TargetOptions,
): Targets {
  const known = new BoundedMap<string, Target>(MAX_KNOWN_NAMES);
  const shared = new Map<string, Shared>();
  for (const [name, provider] of Object.entries(config.providers)) {
    const quirks = quirksOf(provider);
    const { apiKeys = [] } = provider;
    const apiKey = provider.apiKey ?? apiKeys[0];
    const rotation = options.rotations?.get(name);
    const configured = Object.entries(provider.headers ?? {});
    const headersWith = (apiKey: string | undefined) =>
      joinHeaders({
        own: [
          ["content-type", "application/json"],
          ["user-agent", `loophub/${VERSION}`],
          ...(apiKey === undefined ? [] : quirks.credential(apiKey)),
        ],
        ...quirks,
        configured,
      });
    const keys = rotation === undefined ? apiKeys : [apiKey, rotation.former];
    const pool = keys.length > 1 ? keys.map(headersWith) : [];
    const { foreign } = options;
    const client = foreign?.providers.has(name) === true ? foreign.http : options.http;
    const send = keepConfigured(client, configured);
    const http = rotation === undefined
      ? send
      : watchKey(send, { fixedHeaders: pool[0], onWorks: rotation.onWorks });
    shared.set(name, {
      provider,
      quirks,
      // Whatever knows of one key only takes the one that is known to work.
      fixedHeaders: (rotation?.isProven === false ? pool[1] : pool[0]) ?? headersWith(apiKey),
      pool,
      rotation,
      endpoints: endpointsOf(provider, quirks, { ...options, http }),
    });
  }
  const targetOf = (id: string, { provider: name, model, found }: Wanted): Target => {
    const { provider, quirks, fixedHeaders, endpoints } = found;
    return {
      id,
      provider: name,
      model,
      endpoints,
      fixedHeaders,
      quirks,
      timeouts: { ...config.timeouts, ...provider.timeouts },
      maxRetries: provider.maxRetries,
      kind: provider.kind,
      override: withPrice(overrideOf(provider, model), provider, model),
    };
  };
  const find = (name: string): Target | null => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const parts = splitTargetName(name);
    const found = parts === null ? undefined : shared.get(parts.provider);
    if (parts === null || found === undefined) return null;
    const { provider } = found;
    const listed = listedModels(provider);
    if (listed !== null && !listed.includes(parts.model)) return null;
    const target = withLanes(targetOf(name, { ...parts, found }), found);
    known.set(name, target);
    return target;
  };
  const bare = new Map([...shared].map(([provider, found]) => [
    provider,
    withLanes(targetOf(provider, { provider, model: NO_MODEL, found }), {
      ...found,
      // What is stored at a provider belongs to one key of a pool; that of a rotation are one account's.
      pool: found.rotation === undefined ? [] : found.pool,
    }),
  ]));
  return Object.assign(find, { ofProvider: (name: string) => bare.get(name) ?? null });
}

interface Wanted {
  provider: string;
  model: string;
  found: Shared;
}

/** The target with each key of its provider's pool. */
function withLanes(
  target: Target,
  { pool, rotation }: Pick<Shared, "pool" | "rotation">,
): Target {
  if (pool.length === 0) return target;
  const lanes = pool.map((fixedHeaders, index) => {
    const id = `${target.provider}#${rotation?.ids[index] ?? index + 1}`;
    const key = { number: index + 1, id, atModel: `${target.id} ${id}` };
    return { ...target, fixedHeaders, key };
  });
  return { ...target, lanes, ...(rotation === undefined ? {} : { inOrder: true }) };
}

/** Sends, and tells when the provider has taken the key of these headers. */
function watchKey(
  send: SendUpstream,
  { fixedHeaders, onWorks }: { fixedHeaders: HeaderPairs | undefined; onWorks(): void },
): SendUpstream {
  return async (request) => {
    const response = await send(request);
    const isTaken = response.status >= 200 && response.status < 300;
    if (isTaken && request.fixedHeaders === fixedHeaders) onWorks();
    return response;
  };
}

/** What is configured for one model of a provider. */
function overrideOf({ models }: LoadedProvider, model: string): ModelOverride {
  if (models === undefined || Array.isArray(models)) return {};
  return Object.hasOwn(models, model) ? models[model] ?? {} : {};
}

/** The model's settings with its price: the operator's own, else the list price, else none. */
function withPrice(
  override: ModelOverride,
  provider: LoadedProvider,
  model: string,
): ModelOverride {
  const pricing = provider.kind === "demo"
    ? { inputPerMillion: 0, outputPerMillion: 0 }
    : override.pricing ?? listPrice(provider, model);
  return pricing === undefined ? override : { ...override, pricing };
}

/** Where each dialect goes that the provider speaks; chat completions are translated if it does not speak them. */
function endpointsOf(
  provider: LoadedProvider,
  { dialect, embeddings, speaks }: Quirks,
  options: TargetOptions,
): Target["endpoints"] {
  const send = provider.kind === "demo" ? options.demo : options.http;
  const baseUrl = provider.baseUrl ?? "http://demo.invalid/v1";
  const own = (name: WireName): Endpoint => ({ url: baseUrl + ENDPOINT_PATHS[name], send });
  const chat = dialect === null ? own("chat") : {
    url: baseUrl,
    send: sendTranslated({
      ...options,
      send,
      dialect,
      baseUrl,
      settingsOf: (model) => overrideOf(provider, model),
    }),
  };
  const translated = embeddings === null ? {} : {
    embeddings: { url: baseUrl, send: sendEmbeddings({ send, dialect: embeddings, baseUrl }) },
  };
  const open = dialect === null && provider.kind !== "demo" ? OPENAI_WIRES : [];
  const spoken = [...speaks, ...open].map((name) => [name, own(name)]);
  return { ...Object.fromEntries(spoken), ...translated, chat };
}
