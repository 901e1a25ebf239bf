import { HubError } from "../../core/error.ts";
import {
  endOfLine,
  findBlankLine,
  HeaderFields,
  MalformedHead,
  parseFields,
} from "../../wire/http1/header_fields.ts";

/** Largest head of a response, interim ones before it included, in bytes. */
export const MAX_HEAD_BYTES = 64 * 1024;
/** Most fields of a head. */
export const MAX_HEADERS = 200;

const CR = 13;
const PREFIX = [72, 84, 84, 80, 47, 49, 46]; // HTTP/1.

/** A parsed head. */
export interface ResponseHead {
  readonly status: number;
  /** Minor version of HTTP/1: 0 or 1. */
  readonly minor: number;
  readonly fields: HeaderFields;
}

/** Stands where no head has come yet. */
export const NO_HEAD: ResponseHead = Object.freeze({
  status: 0,
  minor: 1,
  fields: new HeaderFields(new Uint8Array(0), []),
});

/**
 * Place behind the blank line that ends a head, or -1 while it has not come. `from` is how far an earlier call has seen.
 * Throws `upstream_malformed` when the bytes cannot become a head: another protocol, or one too large.
 */
export function findHeadEnd(bytes: Uint8Array, from: number): number {
  const prefix = Math.min(bytes.length, PREFIX.length);
  for (let i = 0; i < prefix; i++) {
    if (bytes[i] !== PREFIX[i]) throw malformed("does not begin with HTTP/1");
  }
  const end = findBlankLine(bytes, from);
  if (end > MAX_HEAD_BYTES || (end < 0 && bytes.length >= MAX_HEAD_BYTES)) {
    throw malformed(`is larger than ${MAX_HEAD_BYTES} bytes`);
  }
  return end;
}

/** Parses a whole head, its blank line included. Throws `upstream_malformed`. */
export function parseHead(bytes: Uint8Array): ResponseHead {
  const minor = (bytes[7] ?? 0) - 48;
  const status = digit(bytes, 9) * 100 + digit(bytes, 10) * 10 + digit(bytes, 11);
  const after = bytes[12];
  if (
    (minor !== 0 && minor !== 1) || bytes[8] !== 32 || !(status >= 100 && status <= 599) ||
    (after !== 32 && after !== CR)
  ) {
    throw malformed("has a status line that is not `HTTP/1.x ` and three digits");
  }
  try {
    const from = endOfLine(bytes, 12) + 2;
    return { status, minor, fields: parseFields(bytes, { from, maxFields: MAX_HEADERS }) };
  } catch (error) {
    throw error instanceof MalformedHead ? malformed(error.message) : error;
  }
}

function digit(bytes: Uint8Array, at: number): number {
  const value = (bytes[at] ?? 0) - 48;
  return value >= 0 && value <= 9 ? value : NaN;
}

function malformed(what: string): HubError {
  return new HubError("upstream_malformed", `The head of the upstream's answer ${what}`);
}
