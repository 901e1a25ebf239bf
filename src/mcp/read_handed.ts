import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { HubError } from "../core/error.ts";
import { HandedCredentials } from "../core/handed_credentials.ts";

/** Begins the names of headers that hand a credential over; the server's prefix follows. */
export const HANDED_PREFIX = "x-mcp-auth-";
/** The field of a body that does the same. */
export const HANDED_FIELD = "mcpAuth";

/** A credential, and the place it came in: a header's whole name, or a field's. */
export interface HandedPart {
  slug: string;
  value: string;
  place: string;
}

const MIN_CHARS = 8;
const MAX_CHARS = 8192;
const VISIBLE = /^[!-~]+(?: [!-~]+)*$/;

/**
 * What a caller handed over, by the names of servers; null when it is nothing. Throws `invalid_request` for a server that
 * there is not or that takes none, for two credentials of one, and for what is no credential.
 */
export function readHanded(
  parts: readonly HandedPart[],
  servers: Readonly<Record<string, LoadedMcpServer>>,
): HandedCredentials | null {
  if (parts.length === 0) return null;
  const found = new Map<string, string>();
  for (const { slug, value, place } of parts) {
    const refuse = (problem: string) =>
      new HubError("invalid_request", `${place}: ${problem}`, { param: place });
    const [name, server] = Object.entries(servers).find(([, server]) =>
      server.slug === slug && server.enabled
    ) ?? [];
    if (name === undefined || server === undefined) {
      const known = Object.values(servers).filter(isTaker).map((server) => server.slug).sort();
      throw refuse(
        `there is no MCP server with the prefix ${JSON.stringify(slug.slice(0, 40))}; ${
          known.length === 0 ? "none takes credentials" : `those that take one are ${known.join()}`
        }`,
      );
    }
    if (!isTaker(server)) throw refuse("this MCP server is a program, which takes no credential");
    if (found.has(name)) throw refuse("it came more than once");
    if (value.length < MIN_CHARS || value.length > MAX_CHARS || !VISIBLE.test(value)) {
      throw refuse(`a credential has ${MIN_CHARS} to ${MAX_CHARS} visible ASCII characters`);
    }
    found.set(name, value);
  }
  return new HandedCredentials(found);
}

/** What stands in `authorization` of requests to the server: the credential as it is, or as a bearer token when it is one word. */
export function toAuthorization(value: string): string {
  return value.includes(" ") ? value : `Bearer ${value}`;
}

function isTaker({ transport, enabled }: LoadedMcpServer): boolean {
  return enabled && transport !== "stdio";
}
