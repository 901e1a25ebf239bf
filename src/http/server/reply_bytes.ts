import type { Clock } from "../../core/clock.ts";
import { BAD_IN_VALUE } from "../../wire/http1/header_fields.ts";
import type { Reply } from "../reply.ts";

/** Room in front of a chunk for its size line, in bytes: eight digits and CRLF. */
const SIZE_ROOM = 10;
const CHUNK_END_ROOM = 2;
const SCRATCH_BYTES = 4 * 1024;
const MAX_SCRATCHES = 256;
const ALL_BAD_IN_VALUE = new RegExp(BAD_IN_VALUE, "g");
const encoder = new TextEncoder();
const HEX = "0123456789abcdef";
const REASONS: Readonly<Record<number, string>> = {
  101: "Switching Protocols",
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  304: "Not Modified",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  417: "Expectation Failed",
  422: "Unprocessable Content",
  426: "Upgrade Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};

/** How the end of a reply's body is told. */
export type ReplyFraming = { kind: "none" | "chunked" | "close" } | {
  kind: "length";
  length: number;
};

/** What makes the head of a reply besides the reply itself. */
export interface HeadOptions {
  /** Minor version of the request. */
  minor: number;
  framing: ReplyFraming;
  /** The connection goes on after this reply. */
  keep: boolean;
}

/** Makes heads of replies; the date line is made once a second. */
export function createHeadWriter(
  clock: Clock,
  idleTimeoutMs: number,
): (reply: Reply, options: HeadOptions) => string {
  let second = 0;
  let dateLine = "";
  const keepLine = `keep-alive: timeout=${Math.max(1, Math.floor(idleTimeoutMs / 1000))}\r\n`;
  return (reply, { minor, framing, keep }) => {
    const now = Math.floor(clock.now() / 1000);
    if (now !== second) {
      second = now;
      dateLine = `date: ${new Date(now * 1000).toUTCString()}\r\n`;
    }
    const { status, headers, extra } = reply;
    let head = `HTTP/1.1 ${status} ${REASONS[status] ?? "Status"}\r\n`;
    for (const name in headers) {
      if (Object.hasOwn(headers, name)) head += `${name}: ${clean(headers[name] ?? "")}\r\n`;
    }
    for (let at = 0; at + 1 < extra.length; at += 2) {
      head += `${extra[at] ?? ""}: ${clean(extra[at + 1] ?? "")}\r\n`;
    }
    if (framing.kind === "length") head += `content-length: ${framing.length}\r\n`;
    else if (framing.kind === "chunked") head += "transfer-encoding: chunked\r\n";
    head += dateLine;
    if (status === 101) return head + "connection: upgrade\r\n\r\n";
    if (!keep) return head + "connection: close\r\n\r\n";
    return head + (minor === 0 ? "connection: keep-alive\r\n" : "") + keepLine + "\r\n";
  };
}

/** A value that can stand in a head, whoever made it: other characters become question marks. */
function clean(value: string): string {
  return BAD_IN_VALUE.test(value) ? value.replace(ALL_BAD_IN_VALUE, "?") : value;
}

/** Buffers that are used again, since making one costs as much as a small write. */
export class ScratchPool {
  readonly #free: Uint8Array[] = [];

  /** A buffer of at least this size, whatever is in it. */
  take(size: number): Uint8Array {
    if (size > SCRATCH_BYTES) return new Uint8Array(size);
    return this.#free.pop() ?? new Uint8Array(SCRATCH_BYTES);
  }

  /** Takes a buffer back that nobody reads or writes any more. */
  give(buffer: Uint8Array): void {
    if (buffer.length === SCRATCH_BYTES && this.#free.length < MAX_SCRATCHES) {
      this.#free.push(buffer);
    }
  }
}

/** Bytes that `putChunk` needs beside the payload. */
export const CHUNK_ROOM = SIZE_ROOM + CHUNK_END_ROOM;

/** Writes a chunk (RFC 9112, 7.1) and gives the place behind it. */
export function putChunk(payload: Uint8Array, into: Uint8Array, at: number): number {
  let shift = 28;
  while (shift > 0 && (payload.length >>> shift) === 0) shift -= 4;
  let place = at;
  for (; shift >= 0; shift -= 4) into[place++] = HEX.charCodeAt((payload.length >>> shift) & 15);
  into[place++] = 13;
  into[place++] = 10;
  into.set(payload, place);
  place += payload.length;
  into[place++] = 13;
  into[place++] = 10;
  return place;
}

/** Writes a head, which is Latin-1 and almost always ASCII, to the front of a buffer. */
export function putHead(head: string, into: Uint8Array): void {
  const { read, written } = encoder.encodeInto(head, into);
  if (read === head.length && written === head.length) return;
  for (let i = 0; i < head.length; i++) into[i] = head.charCodeAt(i);
}
