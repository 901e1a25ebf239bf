import type { UpstreamResponse } from "../providers/transport.ts";

const PREFIXES = ["x-ratelimit-", "openai-", "anthropic-ratelimit-", "retry-after", "cf-ray"];
/** Whose account the provider has answered. */
const ACCOUNT = /^openai-(?:organization|project)/;

/** Fields of an upstream's answer that clients act on; none when there is no answer yet. */
export function passedHeaders(response: UpstreamResponse | null): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of response?.headersStartingWith(PREFIXES) ?? []) {
    if (!ACCOUNT.test(name)) passed[name] = value;
  }
  return passed;
}
