import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import { joinBytes } from "../../core/join_bytes.ts";
import { isPrivateAddress } from "../../core/private_address.ts";
import {
  type AuthorizationPlaces,
  isAllowedPrivate,
  isPrivateHost,
  parseSafeUrl,
  privateError,
  shown,
  unsafe,
} from "./safe_address.ts";

/** `fetch` as the protocol's package takes it. */
export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** A fetch that goes to these addresses of the name and to no other; null where any will do. */
export type PinnedFetch = (
  url: URL,
  init: RequestInit,
  addresses: readonly string[] | null,
) => Promise<Response>;

/** What a fetch on behalf of an MCP server may do. */
export interface GuardOptions extends AuthorizationPlaces {
  fetch: PinnedFetch;
  /** Addresses of a name; throws when there are none. */
  lookup(host: string): Promise<readonly string[]>;
  clock: Clock;
}

/** Metadata and token answers are a few KB. */
export const MAX_ANSWER_BYTES = 256 * 1024;
const TIMEOUT_MS = 10_000;

/**
 * A fetch for addresses that a foreign server names: https unless on this machine, nothing in private networks but the
 * server itself and what the operator names, no way to another origin, answers of bounded size and time. Throws
 * `unsafe_server` for what it refuses and `upstream_unreachable` for what did not answer. No error says more of an
 * address than its origin and path.
 */
export function createGuardedFetch(options: GuardOptions): Fetch {
  const { clock } = options;
  return async (target, init = {}) => {
    const url = parseSafeUrl(String(target));
    // Those that were looked at: by the time of the request the name may stand for others.
    const addresses = isAllowedPrivate(url, options)
      ? null
      : await publicAddresses(url, options.lookup);
    const controller = new AbortController();
    const timer = clock.setTimer(() => controller.abort(), TIMEOUT_MS);
    try {
      const { signal } = controller;
      const answer = await options.fetch(
        url,
        { ...init, redirect: "manual", signal },
        addresses,
      );
      assertSameOrigin(url, answer);
      const bytes = await readBounded(url, answer);
      const { status, statusText, headers } = answer;
      const hasBody = ![101, 204, 205, 304].includes(status);
      return new Response(hasBody ? bytes : null, { status, statusText, headers });
    } catch (error) {
      if (error instanceof HubError) throw error;
      const how = controller.signal.aborted ? `within ${TIMEOUT_MS} ms` : "at all";
      throw new HubError("upstream_unreachable", `${shown(url)} did not answer ${how}`);
    } finally {
      clock.clearTimer(timer);
    }
  };
}

/** The addresses of the name, none of them private; null for what is one itself. */
async function publicAddresses(
  url: URL,
  lookup: GuardOptions["lookup"],
): Promise<readonly string[] | null> {
  const { hostname } = url;
  if (isPrivateHost(hostname)) throw privateError(url);
  if (isAddress(hostname)) return null;
  let addresses: readonly string[];
  try {
    addresses = await lookup(hostname);
  } catch {
    throw new HubError("upstream_unreachable", `The name ${hostname} is not known`);
  }
  if (addresses.some(isPrivateAddress)) throw privateError(url);
  return addresses;
}

function isAddress(host: string): boolean {
  return host.startsWith("[") || /^\d+(?:\.\d+){3}$/.test(host);
}

function assertSameOrigin(url: URL, answer: Response): void {
  const location = answer.headers.get("location");
  if (location === null || answer.status < 300 || answer.status > 399) return;
  const target = URL.canParse(location, url) ? new URL(location, url) : null;
  if (target?.origin === url.origin) return;
  void answer.body?.cancel().catch(() => {});
  const to = target === null ? "to no address" : `to ${target.origin}`;
  throw unsafe(`${shown(url)} redirects ${to}`, "redirects to other origins are not followed");
}

async function readBounded(url: URL, answer: Response): Promise<Uint8Array<ArrayBuffer>> {
  if (answer.body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of answer.body) {
    length += chunk.length;
    if (length > MAX_ANSWER_BYTES) {
      throw unsafe(
        `${shown(url)} answered with more than ${MAX_ANSWER_BYTES} bytes`,
        "wanted less",
      );
    }
    chunks.push(chunk);
  }
  return new Uint8Array(joinBytes(chunks));
}
