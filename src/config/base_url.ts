import { addressKind } from "../core/address.ts";
import type { ProviderKind } from "./known_providers.ts";

/** A base URL in the form the hub uses, or what it should have been. */
export type BaseUrl = { ok: true; url: string } | { ok: false; wanted: string };

const ENDPOINT =
  /\/(chat\/completions|completions|responses|embeddings|models|messages|api\/chat)$/;
const METADATA_NAME = /^metadata(\.google\.internal)?\.?$/;

/**
 * Checks a provider's base URL and takes trailing slashes off. Kinds whose own API the hub speaks are found as well by
 * the address of their OpenAI-compatible one, or by that of their server.
 */
export function parseBaseUrl(text: string, kind: ProviderKind): BaseUrl {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    return { ok: false, wanted: "a URL that begins with http:// or https://" };
  }
  if (url.username !== "" || url.password !== "") {
    return { ok: false, wanted: "a URL without user and password; use apiKey or headers" };
  }
  if (url.search !== "" || url.hash !== "") {
    return { ok: false, wanted: 'a URL without "?" and "#"' };
  }
  if (addressKind(url.hostname) === "forbidden" || METADATA_NAME.test(url.hostname)) {
    return { ok: false, wanted: "a host that serves models, no link-local or metadata address" };
  }
  const path = url.pathname.replace(/\/+$/, "");
  const endpoint = ENDPOINT.exec(path);
  if (endpoint !== null) {
    return { ok: false, wanted: `the URL that ${endpoint[0]} is added to` };
  }
  return { ok: true, url: url.origin + nativePath(path, kind) };
}

/** Where the native API is, for kinds that are also known by the address of their OpenAI-compatible one. */
function nativePath(path: string, kind: ProviderKind): string {
  if (kind === "google") return path === "" ? "/v1beta" : path.replace(/\/openai$/, "");
  // An Ollama behind a prefix has both APIs below it.
  if (kind === "ollama") return `${path.replace(/\/(v1|api)$/, "")}/api`;
  // Its clients are told the address that `/v1/messages` is added to.
  if (kind === "anthropic") return path.endsWith("/v1") ? path : `${path}/v1`;
  return path;
}
