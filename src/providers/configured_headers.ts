import type { HeaderPairs, SendUpstream } from "./transport.ts";

/** Fields that list what a request needs: the request's entries stand behind the configured ones, in one field. */
const LISTS: ReadonlySet<string> = new Set(["anthropic-beta", "openai-beta"]);

/** What a provider is sent beside each request's own fields. */
export interface ProviderHeaders {
  /** The hub's. */
  own: HeaderPairs;
  /** Those of `own` that say together which application calls: one name of these, configured, replaces all. */
  attribution: HeaderPairs;
  attributionNames: readonly string[];
  /** The operator's. */
  configured: HeaderPairs;
}

/** The fields of every request to a provider: what is configured replaces the hub's, whatever its case. */
export function joinHeaders(
  { own, attribution, attributionNames, configured }: ProviderHeaders,
): HeaderPairs {
  const names = namesOf(configured);
  const isAttributed = attributionNames.some((name) => names.has(name));
  return [...own, ...isAttributed ? [] : attribution]
    .filter(([name]) => !names.has(name.toLowerCase()))
    .concat(configured);
}

/** Sends, with what is configured in place of what the request itself says. */
export function keepConfigured(send: SendUpstream, configured: HeaderPairs): SendUpstream {
  if (configured.length === 0) return send;
  const names = namesOf(configured);
  const isConfigured = ([name]: HeaderPairs[number]) => names.has(name.toLowerCase());
  return (request) => {
    if (!request.headers.some(isConfigured)) return send(request);
    const { fixedHeaders = [], headers, ...rest } = request;
    const others = [...fixedHeaders, ...headers].filter((pair) => !isConfigured(pair));
    const kept = configured.map(([name, value]): [string, string] => {
      const key = name.toLowerCase();
      if (!LISTS.has(key)) return [name, value];
      const values = headers.filter(([other]) => other.toLowerCase() === key).map(([, one]) => one);
      return [name, joinLists([value, ...values])];
    });
    return send({ ...rest, headers: [...others, ...kept] });
  };
}

function namesOf(pairs: HeaderPairs): ReadonlySet<string> {
  return new Set(pairs.map(([name]) => name.toLowerCase()));
}

function joinLists(values: readonly string[]): string {
  const entries = values.flatMap((value) => value.split(",").map((entry) => entry.trim()));
  return [...new Set(entries.filter((entry) => entry !== ""))].join(",");
}
