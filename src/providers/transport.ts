import type { AbortLike } from "../core/abort.ts";
import type { BodySource } from "../core/body_source.ts";

/** Methods an upstream is called with. */
export type UpstreamMethod = "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Header fields in order; names in any case. */
export type HeaderPairs = readonly (readonly [name: string, value: string])[];

/** One request to an upstream. */
export interface UpstreamRequest {
  method: UpstreamMethod;
  /** Absolute http(s) URL without credentials in it. */
  url: string;
  /** Fields of this request. The client itself sends `host`, the framing and `accept-encoding`, and refuses them here. */
  headers: HeaderPairs;
  /** Fields that stay the same from request to request (credentials, content type). Encoded once per array: never change it. */
  fixedHeaders?: HeaderPairs;
  /** Held until the answer begins, and sent again when a kept connection turns out to be dead. Never written to. */
  body: Uint8Array | null;
  /** A body that is sent while it comes, in place of `body`. When it rejects, that is what the request fails with. */
  source?: BodySource;
  /** The request must not be sent again: it goes out on a fresh connection, as a kept one may turn out to be dead. */
  once?: boolean;
  /**
   * Called right before the first byte goes out on a connection, and again when the request is sent again: what was
   * written down in it about the call is there before the upstream can know of it. Must not throw.
   */
  onSend?: () => void;
  /** Ends the exchange in every phase, also while the answer is read. */
  signal: AbortLike;
  /** Time for DNS, TCP and TLS together, in milliseconds. */
  connectTimeoutMs: number;
}

/** An answer whose head has arrived. Redirects are answers like any other. */
export interface UpstreamResponse {
  readonly status: number;
  /** Value of the first field with this name (lower case), or null. */
  header(name: string): string | null;
  /** All fields in order, names in lower case. Made anew by each look at it. */
  readonly headers: [string, string][];
  /** The fields whose names begin with one of these (lower case); cheaper than a look through all. */
  headersStartingWith(prefixes: readonly string[]): [string, string][];
  /**
   * Next piece of the decoded body, never empty; null only when the framing says that the body is whole. Rejects with
   * `upstream_cut` when the connection ends earlier, `upstream_malformed` when the framing breaks, `aborted` after a
   * cancel. One read at a time. The bytes belong to the caller and are never written to again, but pieces may share a
   * buffer, so it must not be transferred.
   */
  read(): Promise<Uint8Array | null>;
  /** Stops reading and closes the connection at once; idempotent. A pending read rejects with `aborted`. */
  cancel(): void;
}

/**
 * Sends a request and gives the answer's head. Rejects with `upstream_unreachable` (DNS, TCP, TLS), `upstream_timeout`
 * (connecting took too long), `upstream_cut` (connected, and ended before a head), `upstream_malformed` (the head is no
 * HTTP/1.1), `aborted` (the signal), `invalid_configuration` (a URL or header that must not be sent).
 * An answer must be read to its end or cancelled; else its connection stays open.
 */
export type SendUpstream = (request: UpstreamRequest) => Promise<UpstreamResponse>;
