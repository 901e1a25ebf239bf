import { parseBaseUrl } from "./base_url.ts";
import { checkHeaders } from "./check_headers.ts";
import type { ConfigPath } from "./config_path.ts";
import {
  defaultBaseUrl,
  DEMO_MODELS,
  findKnownProvider,
  keyInEnvironment,
  PROVIDER_KINDS,
  type ProviderKind,
} from "./known_providers.ts";
import { quoteGot } from "./describe_got.ts";
import { didYouMean } from "./nearest_name.ts";
import type { ProblemList } from "./problem.ts";
import type { Provider } from "./provider_schema.ts";

/** A provider with its kind decided; `baseUrl` is missing only where nothing is called, which is kind `demo`. */
export type LoadedProvider = Provider & { kind: ProviderKind };

/** Providers ready to be called. */
export interface CompletedProviders {
  providers: Record<string, LoadedProvider>;
  /** Environment variables whose values became keys without being named in the file, by provider. */
  keyVariables: ReadonlyMap<string, string>;
  notes: string[];
}

/** Set with each body: chat is JSON, an upload is not. */
const OWN_HEADERS = /^content-type$/;

/** Headers that carry a credential, so that no key needs to be found for the provider. */
const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  "authorization",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
]);

/** Decides kind, base URL and key of every provider, and checks what a schema cannot. */
export function completeProviders(
  providers: Record<string, Provider>,
  { env, problems }: { env: (name: string) => string | undefined; problems: ProblemList },
): CompletedProviders {
  const completed: Record<string, LoadedProvider> = {};
  const keyVariables = new Map<string, string>();
  const notes: string[] = [];
  for (const [name, provider] of Object.entries(providers)) {
    const kind = provider.kind ?? kindOf(name);
    if (kind === "demo") {
      completed[name] = { models: [...DEMO_MODELS], ...provider, kind };
      continue;
    }
    const baseUrl = completeBaseUrl(name, { provider, kind, problems });
    const path = ["providers", name, "headers"];
    checkHeaders(provider.headers ?? {}, { path, own: OWN_HEADERS, problems });
    const found = provider.apiKey === undefined && provider.apiKeys === undefined
      ? findKey({ ...provider, kind }, baseUrl, env)
      : null;
    if (found !== null) keyVariables.set(name, found.variable);
    const apiKey = provider.apiKey ?? found?.key;
    checkKeys(name, { ...provider, apiKey }, problems);
    completed[name] = {
      ...provider,
      kind,
      ...(baseUrl === undefined ? {} : { baseUrl }),
      ...(apiKey === undefined ? {} : { apiKey }),
    };
    const row = findKnownProvider(kind);
    if (
      row !== undefined && apiKey === undefined && provider.apiKeys === undefined &&
      !hasCredential(provider)
    ) {
      notes.push(
        `Provider ${name} has no key here; set ${row.envVar} or providers.${name}.apiKey`,
      );
    }
  }
  return { providers: completed, keyVariables, notes };
}

function kindOf(name: string): ProviderKind {
  return PROVIDER_KINDS.find((kind) => kind === name) ?? "openai-compatible";
}

function completeBaseUrl(
  name: string,
  { provider, kind, problems }: { provider: Provider; kind: ProviderKind; problems: ProblemList },
): string | undefined {
  const path = ["providers", name, "baseUrl"];
  const text = provider.baseUrl ?? defaultBaseUrl(kind);
  if (text === undefined) {
    // What is wrong already explains what is missing here.
    const above = [["providers", name], ["providers", name, "kind"], path];
    if (above.some((place) => problems.has(place))) return undefined;
    const known = PROVIDER_KINDS.filter((kind) => kind !== "openai-compatible");
    problems.add(path, {
      got: "nothing",
      wanted: `the URL of its API, as ${name} is no provider the hub knows${
        didYouMean(name, known)
      }`,
    });
    return undefined;
  }
  const parsed = parseBaseUrl(text, kind);
  if (parsed.ok) return parsed.url;
  problems.add(path, { got: quoteGot(text), wanted: parsed.wanted });
  return undefined;
}

function checkKeys(
  name: string,
  { apiKey, apiKeys }: { apiKey: string | undefined; apiKeys?: readonly string[] },
  problems: ProblemList,
): void {
  const place = ["providers", name];
  if (apiKey !== undefined) checkKey(apiKey, [...place, "apiKey"], problems);
  for (const [index, key] of apiKeys?.entries() ?? []) {
    checkKey(key, [...place, "apiKeys", index], problems);
  }
  if (apiKey !== undefined && apiKeys !== undefined) {
    problems.add([...place, "apiKeys"], {
      got: "a list of keys beside apiKey",
      wanted: "either apiKey or apiKeys",
    });
  }
}

function checkKey(apiKey: string, path: ConfigPath, problems: ProblemList): void {
  if (/^[\x21-\x7e]+$/.test(apiKey)) return;
  problems.add(path, {
    got:
      `a text of ${apiKey.length} characters with a space, a line break or a sign that keys do not have`,
    wanted: "visible ASCII characters only",
  });
}

/**
 * The key that the environment has for this kind of provider. It is given only to the vendor's own address: a file
 * that points the same kind elsewhere must name the key it wants to send there.
 */
function findKey(
  provider: LoadedProvider,
  baseUrl: string | undefined,
  env: (name: string) => string | undefined,
): { key: string; variable: string } | null {
  const row = findKnownProvider(provider.kind);
  if (row === undefined || baseUrl === undefined || hasCredential(provider)) return null;
  if (new URL(baseUrl).origin !== new URL(row.baseUrl).origin) return null;
  const found = keyInEnvironment(row, env);
  return found.kind === "key" ? found : null;
}

function hasCredential(provider: Provider): boolean {
  return Object.keys(provider.headers ?? {}).some((header) =>
    CREDENTIAL_HEADERS.has(header.toLowerCase())
  );
}
