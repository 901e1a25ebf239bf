import { type ByteSource, fromStream, toStream } from "./byte_source.ts";

/** How an answer ended: sent whole, the client left before, or broken off because its source failed or the server stopped. */
export type Outcome = "done" | "left" | "cut";

/** What an answer was in the end. */
export interface ReplyEnd {
  outcome: Outcome;
  /** Bytes of the body handed to the connection. */
  bytesOut: number;
  /** Why a `cut` body failed. */
  error?: unknown;
}

/** Told once when nothing more will be sent. */
export interface ReplyListener {
  ended(end: ReplyEnd): void;
}

/** Status and header fields of a reply; names in lower case. */
export interface ReplyOptions {
  status?: number;
  headers?: Readonly<Record<string, string>>;
}

/** An answer as plain data: what a `Response` says, at a tenth of its cost (ADR 0001). One object per request. */
export class Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string | ByteSource | null;
  /** True when the head must go out before the first bytes are there. */
  readonly flush: boolean;
  /** Further header names and values in turn; the app's, so that `headers` may be shared between replies. */
  extra: string[] = [];
  /** An object, as making a closure for each request would cost more. */
  listener: ReplyListener | null = null;

  constructor(
    body: Uint8Array | string | ByteSource | null,
    options: ReplyOptions & { flush?: boolean } = {},
  ) {
    this.body = body;
    this.status = options.status ?? 200;
    this.headers = options.headers ?? NO_HEADERS;
    this.flush = options.flush ?? false;
  }
}

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({});
const JSON_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  "content-type": "application/json",
});

/** A value as JSON; `toJSON` and `undefined` members follow `JSON.stringify`. */
export function jsonReply(value: unknown, options: ReplyOptions = {}): Reply {
  const headers = options.headers === undefined
    ? JSON_HEADERS
    : { ...JSON_HEADERS, ...options.headers };
  return new Reply(JSON.stringify(value), { status: options.status ?? 200, headers });
}

/** A whole body, sent with its length in one write. */
export function bytesReply(
  body: Uint8Array | string,
  options: ReplyOptions & { contentType: string },
): Reply {
  const headers = { "content-type": options.contentType, ...options.headers };
  return new Reply(body, { status: options.status ?? 200, headers });
}

/** An answer without a body, 204 unless told. */
export function emptyReply(status = 204, headers: Readonly<Record<string, string>> = {}): Reply {
  return new Reply(null, { status, headers });
}

/** A body that is made while it is sent; `flush` sends the head before the first bytes. */
export function streamReply(
  source: ByteSource,
  options: ReplyOptions & { contentType: string; flush?: boolean },
): Reply {
  const headers = { "content-type": options.contentType, ...options.headers };
  return new Reply(source, {
    status: options.status ?? 200,
    headers,
    flush: options.flush ?? false,
  });
}

/** True for a body that is made while it is sent. */
export function isSource(body: Reply["body"]): body is ByteSource {
  return body !== null && typeof body !== "string" && !(body instanceof Uint8Array);
}

/** Fields that tell of the connection and the framing, which are the server's (RFC 9110, 7.6.1). */
const OF_THE_CONNECTION: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "date",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Takes over the answer of a library that speaks `Response`. */
export function fromResponse(response: Response): Reply {
  const headers: Record<string, string> = {};
  const extra: string[] = [];
  for (const [name, value] of response.headers) {
    if (name === "set-cookie") extra.push(name, value);
    else if (!OF_THE_CONNECTION.has(name)) headers[name] = value;
  }
  const source = response.body === null ? null : fromStream(response.body);
  const reply = new Reply(source, { status: response.status, headers });
  reply.extra = extra;
  return reply;
}

/** The reply as a real `Response`, for tests and for callers without a socket. */
export function toResponse(reply: Reply): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(reply.headers)) headers.append(name, value);
  for (let at = 0; at + 1 < reply.extra.length; at += 2) {
    headers.append(reply.extra[at] ?? "", reply.extra[at + 1] ?? "");
  }
  const end = (end: ReplyEnd) => reply.listener?.ended(end);
  const { body, status } = reply;
  if (isSource(body)) {
    return new Response(toStream(withEnd(body, end)), { status, headers });
  }
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  end({ outcome: "done", bytesOut: bytes?.length ?? 0 });
  return new Response(bytes === null ? null : new Uint8Array(bytes), { status, headers });
}

function withEnd(source: ByteSource, end: (end: ReplyEnd) => void): ByteSource {
  let bytesOut = 0;
  return {
    async pull() {
      try {
        const bytes = await source.pull();
        if (bytes === null) end({ outcome: "done", bytesOut });
        else bytesOut += bytes.length;
        return bytes;
      } catch (error) {
        end({ outcome: "cut", bytesOut, error });
        throw error;
      }
    },
    cancel(reason) {
      source.cancel(reason);
      end({ outcome: "left", bytesOut });
    },
  };
}
