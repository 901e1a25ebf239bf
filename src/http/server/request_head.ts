import { HubError } from "../../core/error.ts";
import {
  type HeaderFields,
  latin1,
  MalformedHead,
  parseFields,
  TOKEN,
} from "../../wire/http1/header_fields.ts";

/** A request's head, checked. */
export interface RequestHead {
  readonly method: string;
  /** The request target exactly as it came. */
  readonly target: string;
  /** Minor version of HTTP/1: 0 or 1. */
  readonly minor: number;
  readonly fields: HeaderFields;
  /** Bytes of the body; `CHUNKED` when only its framing tells. */
  readonly bodyLength: number;
  /** The connection may carry another request after this one. */
  readonly keep: boolean;
  /** The client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean;
}

/** Length of a body whose chunks tell where it ends. */
export const CHUNKED = -1;

const SPACE = 32;
const CR = 13;
const LF = 10;
const VERSION = "HTTP/1.";

/**
 * Parses a whole head, its blank line included. As strict as RFC 9112 lets a server be: whatever two parsers could read
 * in two ways is refused. Throws `invalid_request`, with status 431 for too many fields.
 */
export function parseRequestHead(bytes: Uint8Array, maxFields: number): RequestHead {
  let at = 0;
  while (TOKEN[bytes[at] ?? 0] === 1) at++;
  const methodEnd = at;
  if (methodEnd === 0 || bytes[at] !== SPACE) throw notHttp("its first line has no method");
  const targetStart = ++at;
  for (let byte = bytes[at] ?? 0; byte > SPACE && byte !== 127; byte = bytes[at] ?? 0) at++;
  const targetEnd = at;
  if (targetEnd === targetStart || bytes[at] !== SPACE) {
    throw notHttp("its first line has no target");
  }
  at++;
  for (let i = 0; i < VERSION.length; i++) {
    if (bytes[at + i] !== VERSION.charCodeAt(i)) throw notHttp("its version is not HTTP/1");
  }
  at += VERSION.length;
  const minor = (bytes[at] ?? 0) - 48;
  if ((minor !== 0 && minor !== 1) || bytes[at + 1] !== CR || bytes[at + 2] !== LF) {
    throw notHttp("its version is neither HTTP/1.0 nor HTTP/1.1");
  }
  const fields = fieldsOf(bytes, { from: at + 3, maxFields });
  const bodyLength = bodyLengthOf(fields, minor);
  const expectation = fields.get("expect");
  if (expectation !== null && expectation.toLowerCase() !== "100-continue") {
    throw new HubError("invalid_request", "The request expects what this server does not do", {
      status: 417,
      clientCode: "expectation_failed",
    });
  }
  return {
    method: latin1(bytes, 0, methodEnd),
    target: latin1(bytes, targetStart, targetEnd),
    minor,
    fields,
    bodyLength,
    keep: mayKeep(fields, minor),
    expectsContinue: expectation !== null && minor === 1 && bodyLength !== 0,
  };
}

/** The error of a header with too many bytes or fields. */
export function headersTooLarge(message: string): HubError {
  return new HubError("invalid_request", message, { status: 431, clientCode: "headers_too_large" });
}

/** The error of bytes that are no request. */
export function notHttp(why: string): HubError {
  return new HubError("invalid_request", `The request is not valid HTTP/1.1: ${why}`);
}

function fieldsOf(
  bytes: Uint8Array,
  options: { from: number; maxFields: number },
): HeaderFields {
  try {
    return parseFields(bytes, options);
  } catch (error) {
    if (!(error instanceof MalformedHead)) throw error;
    throw error.tooMany
      ? headersTooLarge(`The request has more than ${options.maxFields} header fields`)
      : notHttp(`its header ${error.message}`);
  }
}

function bodyLengthOf(fields: HeaderFields, minor: number): number {
  const length = fields.get("content-length");
  const coding = fields.get("transfer-encoding");
  if (coding !== null) {
    if (length !== null) throw notHttp("it has both transfer-encoding and content-length");
    if (
      minor === 0 || fields.isRepeated("transfer-encoding") || coding.toLowerCase() !== "chunked"
    ) {
      throw notHttp("it has a transfer-encoding other than chunked");
    }
    return CHUNKED;
  }
  if (length === null) return 0;
  if (fields.isRepeated("content-length")) throw notHttp("it has more than one content-length");
  if (!/^\d{1,15}$/.test(length)) throw notHttp("its content-length is no number");
  return Number(length);
}

function mayKeep(fields: HeaderFields, minor: number): boolean {
  const connection = fields.get("connection");
  if (connection === null) return minor === 1;
  const isPlain = connection.toLowerCase() === "keep-alive";
  if (isPlain && !fields.isRepeated("connection")) return true;
  const options = fields.all("connection").join(",").toLowerCase().split(",");
  if (options.some((option) => option.trim() === "close")) return false;
  return minor === 1 || options.some((option) => option.trim() === "keep-alive");
}
