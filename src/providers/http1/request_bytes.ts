import type { BodySource } from "../../core/body_source.ts";
import { CONNECTION_HEADERS } from "../../core/connection_headers.ts";
import { HubError } from "../../core/error.ts";
import { BAD_IN_VALUE } from "../../wire/http1/header_fields.ts";
import type { HeaderPairs, UpstreamRequest } from "../transport.ts";
import type { Endpoint } from "./endpoint.ts";

/** A request this small goes out in one write; a longer one is written in two, its body not copied. */
const MAX_JOINED = 64 * 1024;
const SCRATCH_BYTES = 4 * 1024;
const MAX_SCRATCHES = 64;

/** Characters of a token (RFC 9110, 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** What goes over the wire for one request. `tail` is a part of the caller's body that was not worth copying. */
export interface RequestBytes {
  bytes: Uint8Array;
  tail: Uint8Array | null;
  /** Gives the buffer behind `bytes` back. Call it once, after everything is written; not after a failed write. */
  release(): void;
}

/** Encodes requests; remembers the fixed part of each. */
export type EncodeRequest = (request: UpstreamRequest, endpoint: Endpoint) => RequestBytes;

/** Header lines, each with its CRLF. Throws `invalid_configuration` naming the field, never its value. */
export function headerLines(pairs: HeaderPairs): string {
  let lines = "";
  for (const [name, value] of pairs) {
    if (!TOKEN.test(name)) {
      throw new HubError(
        "invalid_configuration",
        `${JSON.stringify(name.slice(0, 80))} is no header name`,
      );
    }
    if (CONNECTION_HEADERS.has(name.toLowerCase())) {
      throw new HubError(
        "invalid_configuration",
        `The header ${name} is set by the hub itself and cannot be given`,
      );
    }
    if (BAD_IN_VALUE.test(value)) {
      throw new HubError(
        "invalid_configuration",
        `The value of the header ${name} has a line break, a control character or one outside Latin-1`,
      );
    }
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** Writes text as Latin-1 and gives the place behind it. The target must have room. */
function putLatin1(text: string, into: Uint8Array, at: number): number {
  for (let i = 0; i < text.length; i++) into[at + i] = text.charCodeAt(i);
  return at + text.length;
}

function startLines(request: UpstreamRequest, endpoint: Endpoint): string {
  return `${request.method} ${endpoint.target} HTTP/1.1\r\nhost: ${endpoint.host}\r\naccept-encoding: identity\r\n` +
    headerLines(request.fixedHeaders ?? []);
}

/**
 * Makes an encoder. Buffers are used again, since making one costs as much as a small write; the fixed part (start line,
 * host, `fixedHeaders`) is kept as bytes per array of fixed headers, URL and method.
 */
export function createRequestEncoder(): EncodeRequest {
  const starts = new WeakMap<
    HeaderPairs,
    { endpoint: Endpoint; method: string; bytes: Uint8Array }
  >();
  const scratches: Uint8Array[] = [];

  function startBytes(request: UpstreamRequest, endpoint: Endpoint): Uint8Array {
    const { fixedHeaders } = request;
    if (fixedHeaders === undefined) return latin1(startLines(request, endpoint));
    const known = starts.get(fixedHeaders);
    // Endpoints are cached, so that being the same object is being the same URL.
    if (known !== undefined && known.endpoint === endpoint && known.method === request.method) {
      return known.bytes;
    }
    const bytes = latin1(startLines(request, endpoint));
    starts.set(fixedHeaders, { endpoint, method: request.method, bytes });
    return bytes;
  }

  return (request, endpoint) => {
    const { body } = request;
    const start = startBytes(request, endpoint);
    let rest = request.headers.length === 0 ? "" : headerLines(request.headers);
    // A length also for an empty POST, as servers expect (RFC 9110, 8.6); none where no body is meant.
    if (request.source !== undefined) rest += `${framingOf(request.source)}\r\n\r\n`;
    else if (body !== null) rest += `content-length: ${body.length}\r\n\r\n`;
    else if (request.method === "GET" || request.method === "HEAD") rest += "\r\n";
    else rest += "content-length: 0\r\n\r\n";
    const headLength = start.length + rest.length;
    const bodyLength = body === null || request.source !== undefined ? 0 : body.length;
    const joined = headLength + bodyLength <= MAX_JOINED ? bodyLength : 0;
    const length = headLength + joined;
    const small = length <= SCRATCH_BYTES;
    const buffer = small
      ? scratches.pop() ?? new Uint8Array(SCRATCH_BYTES)
      : new Uint8Array(length);
    buffer.set(start);
    const at = putLatin1(rest, buffer, start.length);
    if (body !== null && joined > 0) buffer.set(body, at);
    return {
      bytes: small ? buffer.subarray(0, length) : buffer,
      tail: body !== null && joined < bodyLength ? body : null,
      release() {
        if (small && scratches.length < MAX_SCRATCHES) scratches.push(buffer);
      },
    };
  };
}

/** A body whose length nobody knows beforehand is sent in chunks (RFC 9112, 6.1). */
function framingOf({ length }: BodySource): string {
  return length === null ? "transfer-encoding: chunked" : `content-length: ${length}`;
}

function latin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  putLatin1(text, bytes, 0);
  return bytes;
}
