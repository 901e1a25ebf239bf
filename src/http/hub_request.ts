import type { AbortLike } from "../core/abort.ts";
import type { BodySource } from "../core/body_source.ts";
import { HubError } from "../core/error.ts";
import { joinBytes } from "../core/join_bytes.ts";

/**
 * A request as the hub reads it, over whatever server received it. Everything that costs something (signal, body)
 * is made at first use.
 */
export interface HubRequest {
  readonly method: string;
  /** The request target exactly as it came: path and query, or what a hostile client put there. */
  readonly target: string;
  readonly httpVersion: string;
  readonly remoteAddress: string;
  /** First value of a header (name in lower case), or null. */
  header(name: string): string | null;
  /** All headers whose names begin so (lower case), in order. */
  headersFrom(prefix: string): [string, string][];
  /** True when a header came more than once. */
  isRepeated(name: string): boolean;
  /** True from the moment the client left, or the server gave up, before its answer was whole. */
  readonly left: boolean;
  /** Aborts at that moment, never after a whole answer. */
  readonly signal: AbortLike;
  /**
   * Gives up on the request: a handler that has not answered yet hears the reason by `signal`, and its error is the answer;
   * a stream breaks off. Left out where there is no connection.
   */
  giveUp?(reason: unknown): void;
  /**
   * All bytes of the body as sent (still with its content coding). Rejects `body_too_large` past `maxBytes`, before
   * reading when the declared length tells, and `client_closed` when the client left. Call once.
   */
  collectBody(maxBytes: number): Promise<Uint8Array>;
  /**
   * The body as sent, piece by piece, in place of `collectBody`. Throws, and its pulls reject, as that does; a client may
   * take the server's time for a body (`requestTimeoutMs`) for each piece.
   */
  streamBody(maxBytes: number): BodySource;
  /** The next bytes behind a request that is answered with 101, null at their end. Not called before it has settled. */
  readUpgraded(): Promise<Uint8Array | null>;
}

/** The error of a client that is gone; nobody reads it, the log counts it. */
export function clientLeft(): HubError {
  return new HubError("client_closed", "The client closed the connection before the answer");
}

/** The error of a body past the cap. */
export function bodyTooLarge(maxBytes: number): HubError {
  return new HubError(
    "body_too_large",
    `The request body is larger than the allowed ${maxBytes} bytes`,
  );
}

/** A web `Request` as the hub reads it; used by tests and by callers without a socket. `Host` defaults to the URL's. */
export function fromWebRequest(request: Request): HubRequest {
  const url = new URL(request.url);
  const pieces = async function* (maxBytes: number) {
    let size = 0;
    for await (const piece of request.body ?? []) {
      size += piece.length;
      if (size > maxBytes) throw bodyTooLarge(maxBytes);
      if (piece.length > 0) yield piece;
    }
  };
  return {
    method: request.method,
    target: request.url.slice(url.origin.length),
    httpVersion: "1.1",
    remoteAddress: "127.0.0.1",
    header: (name) => request.headers.get(name) ?? (name === "host" ? url.host : null),
    headersFrom: (prefix) => [...request.headers].filter(([name]) => name.startsWith(prefix)),
    isRepeated: () => false,
    get left() {
      return request.signal.aborted;
    },
    signal: request.signal,
    collectBody: async (maxBytes) => joinBytes(await Array.fromAsync(pieces(maxBytes))),
    readUpgraded: () => Promise.resolve(null),
    streamBody(maxBytes) {
      const rest = pieces(maxBytes);
      return {
        length: request.body === null ? 0 : null,
        async pull() {
          const { done, value } = await rest.next();
          return done ? null : value;
        },
      };
    },
  };
}
