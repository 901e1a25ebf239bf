import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { HubError } from "../core/error.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { Json } from "../core/json.ts";
import { isInDoubt, OutcomeUnknown } from "../core/outcome_unknown.ts";
import { describeToClient, isNeedsAuth, statusOf, withoutAddress } from "./failure.ts";
import type { Fetch } from "./oauth/guarded_fetch.ts";
import { HANDED_PREFIX, toAuthorization } from "./read_handed.ts";
import { scrubJson, scrubText } from "../telemetry/scrub.ts";

/**
 * The credential of one connection, which a caller handed over: it is sent to the server, and taken out of whatever comes
 * back from there.
 */
export class HandedSource {
  readonly #handed: HandedCredentials;
  readonly #name: string;
  readonly #server: LoadedMcpServer;
  /** All that were sent: a server may still say a former one. */
  readonly #sent = new Set<string>();

  constructor(handed: HandedCredentials, name: string, server: LoadedMcpServer) {
    this.#handed = handed;
    this.#name = name;
    this.#server = server;
  }

  /** The configured headers with the credential in the place of any configured `authorization`. Throws `needs_authorization`. */
  headersWith(configured: Readonly<Record<string, string>>): Record<string, string> {
    const others = Object.entries(configured)
      .filter(([name]) => name.toLowerCase() !== "authorization");
    return { ...Object.fromEntries(others), authorization: this.#current() };
  }

  /** Sends each request with the credential that there is then. */
  authorize(fetch: Fetch): Fetch {
    return (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set("authorization", this.#current());
      // Nowhere but to the server's own address.
      return fetch(url, { ...init, headers, redirect: "manual" });
    };
  }

  /** A message without the credential. */
  scrubMessage(message: JSONRPCMessage): JSONRPCMessage {
    return scrubJson(message as unknown as Json, [...this.#sent]) as unknown as JSONRPCMessage;
  }

  scrub(text: string): string {
    return scrubText(text, [...this.#sent]);
  }

  /** A failure as it may be told, with what to do when the server wants another credential. */
  clean(error: unknown): Error {
    const said = error instanceof Error ? error.message : String(error);
    const text = withoutAddress(error, this.scrub(said));
    if (isInDoubt(error)) return new OutcomeUnknown(text);
    const status = statusOf(error);
    const isRefused = status === 401 || status === 403;
    if (!isRefused || isNeedsAuth(error)) return new Error(text);
    return new Error(
      `${
        text || describeToClient(error)
      }. It refuses the credential that was handed over: ${this.#wish()}`,
    );
  }

  #current(): string {
    const value = this.#handed.valueFor(this.#name);
    if (value === null) {
      throw new HubError(
        "needs_authorization",
        `The credential that was handed over for the MCP server ${this.#name} is not known any more: ${this.#wish()}`,
      );
    }
    const authorization = toAuthorization(value);
    this.#sent.add(authorization);
    if (this.#sent.size > 10) {
      for (const oldest of this.#sent) {
        this.#sent.delete(oldest);
        break;
      }
    }
    return authorization;
  }

  #wish(): string {
    return `needs_auth: hand one over with the header ${HANDED_PREFIX}${this.#server.slug}, at /v1/runs/:id/steer or with the next message`;
  }
}
