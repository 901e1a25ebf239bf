import type { AuthProvider } from "@modelcontextprotocol/client";
import type { Fetch } from "./guarded_fetch.ts";

/** The tokens of one owner for one server, as a transport needs them. */
export interface TokenSource {
  /** The token that holds now, refreshed when it is due; null where there is none. Throws `needs_authorization`. */
  current(): Promise<string | null>;
  /** The server refused this token: refreshed once over all replicas. Throws `needs_authorization` when that is not to be had. */
  refused(token: string | null): Promise<void>;
  /** The server let this token in. */
  worked(token: string): void;
  /** The server wants more than the token is for. Always throws `needs_authorization`. */
  insufficient(scope: string | undefined): Promise<never>;
}

/** Whose tokens: those of one key, or of all keys of a tenant. */
export interface TokenOwner {
  tenantId: string;
  owner: string;
}

/** All tokens that the hub has for servers. */
export interface McpAuth {
  /** Whose tokens connections send that are nobody's own. */
  shared: TokenOwner;
  sourceOf(server: string, owner: TokenOwner): TokenSource;
  /** Whose tokens a caller uses: its own, or those of its tenant; null when there are neither. */
  whose(
    server: string,
    caller: { tenantId: string; keyId: string },
  ): Promise<TokenOwner & { isReady: boolean } | null>;
  /** Those of these owners of a tenant that have nothing authorized at that server any more. */
  gone<T extends TokenOwner & { server: string }>(owned: readonly T[]): Promise<T[]>;
}

/** What a transport takes: the provider, and a fetch that knows which token each answer was for. */
export interface TransportAuth {
  authProvider: AuthProvider;
  fetch: Fetch;
}

/**
 * Makes tokens usable for a transport of the protocol's package: a token before each request, and after a 401 one retry.
 * Which token an answer refuses is read from its request, so that requests side by side never refresh twice.
 */
export function createTransportAuth(source: TokenSource, fetch: Fetch): TransportAuth {
  const sent = new WeakMap<Response, string | null>();
  return {
    authProvider: {
      token: async () => await source.current() ?? undefined,
      async onUnauthorized({ response }) {
        await source.refused(sent.get(response) ?? null);
      },
    },
    async fetch(url, init) {
      const token = /^Bearer (.+)$/.exec(
        new Headers(init?.headers).get("authorization") ?? "",
      )?.[1] ?? null;
      const answer = await fetch(url, init);
      if (answer.ok && token !== null) source.worked(token);
      if (answer.status === 401) sent.set(answer, token);
      else if (answer.status === 403) {
        const scope = wantedScope(answer);
        if (scope !== null) {
          await answer.body?.cancel();
          await source.insufficient(scope === "" ? undefined : scope);
        }
      }
      return answer;
    },
  };
}

/** The scope that a 403 asks for (RFC 6750); empty when it names none, null when it is about something else. */
function wantedScope(answer: Response): string | null {
  const challenge = answer.headers.get("www-authenticate") ?? "";
  if (!/\berror="?insufficient_scope\b/.test(challenge)) return null;
  const scope = /\bscope="([\x21\x23-\x5b\x5d-\x7e ]{1,1000})"/.exec(challenge)?.[1];
  return scope ?? "";
}
