import { HubError } from "../../core/error.ts";
import type { HubRequest } from "../hub_request.ts";

/** Which Host values this server answers to. */
export interface HostPolicy {
  /** Throws `invalid_host`. */
  assert(request: HubRequest): void;
}

/** Anything else could move the border between authority and path for a reader that builds a URL from it. */
const FORM = /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?$/;
const LOOPBACK_NAMES: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Makes the check. A hub bound to a loopback address answers only to loopback names and the trusted ones, so that a
 * page whose name was rebound to 127.0.0.1 gets nothing. Bound elsewhere it answers to every well-formed name, or,
 * when names are trusted, to those and the loopback ones.
 */
export function createHostPolicy(
  options: { boundHost: string; trustedHosts?: readonly string[] | undefined },
): HostPolicy {
  const trusted = (options.trustedHosts ?? []).map((name) => name.toLowerCase());
  const allowed = isLoopback(options.boundHost) || trusted.length > 0
    ? new Set([...LOOPBACK_NAMES, options.boundHost.toLowerCase(), ...trusted])
    : null;
  /** The last one that passed: almost every request comes with it. */
  let lastHost: string | null = null;
  return {
    assert(request) {
      const host = request.header("host");
      if (host !== null && host === lastHost && !request.isRepeated("host")) return;
      if (host === null) {
        // HTTP/1.0 knows no Host, and no browser speaks it.
        if (request.httpVersion === "1.0") return;
        throw refuse("The request has no Host header");
      }
      if (request.isRepeated("host")) throw refuse("The request has two Host headers");
      if (!FORM.test(host)) throw refuse("The Host header is not a name or address with a port");
      if (allowed === null) {
        lastHost = host;
        return;
      }
      const name = hostnameOf(host);
      if (!allowed.has(name) && !allowed.has(host.toLowerCase())) {
        throw refuse(
          `This server does not answer to the name ${name}; add it to server.trustedHosts`,
        );
      }
      lastHost = host;
    },
  };
}

/** The name or address of a Host header, in lower case. */
export function hostnameOf(host: string): string {
  return host.replace(/:\d{1,5}$/, "").toLowerCase();
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" ||
    /^127(?:\.\d+){3}$/.test(host);
}

function refuse(message: string): HubError {
  return new HubError("invalid_host", message);
}
