import { HubError } from "../../core/error.ts";

/** Largest head of a response, interim ones before it included, in bytes. */
export const MAX_HEAD_BYTES = 64 * 1024;
/** Most fields of a head. */
export const MAX_HEADERS = 200;

const CR = 13;
const LF = 10;
const COLON = 58;
const PREFIX = [72, 84, 84, 80, 47, 49, 46]; // HTTP/1.

/** 1 for each byte of a token (RFC 9110, 5.6.2). */
const TOKEN = tokenTable();

function tokenTable(): Uint8Array {
  const table = new Uint8Array(256);
  const characters =
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (const character of characters) table[character.charCodeAt(0)] = 1;
  return table;
}

/** A parsed head. Names and values stay bytes until somebody asks. */
export class ResponseHead {
  readonly status: number;
  /** Minor version of HTTP/1: 0 or 1. */
  readonly minor: number;
  readonly #bytes: Uint8Array;
  /** Per field: start and end of its name, start and end of its value. */
  readonly #places: number[];

  constructor(bytes: Uint8Array, options: { status: number; minor: number; places: number[] }) {
    this.#bytes = bytes;
    this.status = options.status;
    this.minor = options.minor;
    this.#places = options.places;
  }

  /** Value of the first field with this name (lower case), or null. */
  get(name: string): string | null {
    const at = this.#find(name, 0);
    return at < 0 ? null : this.#value(at);
  }

  /** Values of all fields with this name (lower case). */
  all(name: string): string[] {
    const values: string[] = [];
    for (let at = this.#find(name, 0); at >= 0; at = this.#find(name, at + 4)) {
      values.push(this.#value(at));
    }
    return values;
  }

  /** All fields in order, names in lower case, values as Latin-1. */
  pairs(): [string, string][] {
    const pairs: [string, string][] = [];
    const places = this.#places;
    for (let at = 0; at < places.length; at += 4) {
      const name = latin1(this.#bytes, places[at] ?? 0, places[at + 1] ?? 0);
      pairs.push([name.toLowerCase(), this.#value(at)]);
    }
    return pairs;
  }

  #value(at: number): string {
    return latin1(this.#bytes, this.#places[at + 2] ?? 0, this.#places[at + 3] ?? 0);
  }

  #find(name: string, from: number): number {
    const places = this.#places;
    next: for (let at = from; at < places.length; at += 4) {
      const start = places[at] ?? 0;
      if ((places[at + 1] ?? 0) - start !== name.length) continue;
      for (let i = 0; i < name.length; i++) {
        const byte = this.#bytes[start + i] ?? 0;
        const lower = byte >= 65 && byte <= 90 ? byte | 32 : byte;
        if (lower !== name.charCodeAt(i)) continue next;
      }
      return at;
    }
    return -1;
  }
}

/**
 * Place behind the blank line that ends a head, or -1 while it has not come. `from` is how far an earlier call has seen.
 * Throws `upstream_malformed` when the bytes cannot become a head: another protocol, or one too large.
 */
export function findHeadEnd(bytes: Uint8Array, from: number): number {
  const prefix = Math.min(bytes.length, PREFIX.length);
  for (let i = 0; i < prefix; i++) {
    if (bytes[i] !== PREFIX[i]) throw malformed("does not begin with HTTP/1");
  }
  let at = Math.max(0, from - 3);
  for (;;) {
    at = bytes.indexOf(CR, at);
    if (at < 0 || at + 3 >= bytes.length) break;
    if (bytes[at + 1] === LF && bytes[at + 2] === CR && bytes[at + 3] === LF) {
      if (at + 4 > MAX_HEAD_BYTES) throw malformed(`is larger than ${MAX_HEAD_BYTES} bytes`);
      return at + 4;
    }
    at++;
  }
  if (bytes.length >= MAX_HEAD_BYTES) throw malformed(`is larger than ${MAX_HEAD_BYTES} bytes`);
  return -1;
}

/**
 * Parses a whole head, its blank line included, as strictly as RFC 9112 lets a client: no folded lines, no bare CR or LF,
 * no space before a colon, no control characters. Throws `upstream_malformed`.
 */
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
  let at = endOfValue(bytes, 12) + 2;
  const places: number[] = [];
  while (bytes[at] !== CR) {
    if (places.length >= MAX_HEADERS * 4) throw malformed(`has more than ${MAX_HEADERS} fields`);
    const nameStart = at;
    while (TOKEN[bytes[at] ?? 0] === 1) at++;
    if (at === nameStart || bytes[at] !== COLON) {
      throw malformed("has a line that is no `name: value`");
    }
    const nameEnd = at++;
    const end = endOfValue(bytes, at);
    let valueEnd = end;
    while (at < valueEnd && isBlank(bytes[at])) at++;
    while (valueEnd > at && isBlank(bytes[valueEnd - 1])) valueEnd--;
    places.push(nameStart, nameEnd, at, valueEnd);
    at = end + 2;
  }
  return new ResponseHead(bytes, { status, minor, places });
}

const isBlank = (byte: number | undefined) => byte === 32 || byte === 9;

function digit(bytes: Uint8Array, at: number): number {
  const value = (bytes[at] ?? 0) - 48;
  return value >= 0 && value <= 9 ? value : NaN;
}

/** The CR of this line's CRLF. */
function endOfValue(bytes: Uint8Array, from: number): number {
  let at = from;
  for (;; at++) {
    const byte = bytes[at] ?? 0;
    if (byte >= 32 ? byte !== 127 : byte === 9) continue;
    if (byte === CR && bytes[at + 1] === LF) return at;
    throw malformed("has a control character in a line");
  }
}

function latin1(bytes: Uint8Array, from: number, to: number): string {
  let text = "";
  for (let at = from; at < to; at++) text += String.fromCharCode(bytes[at] ?? 0);
  return text;
}

function malformed(what: string): HubError {
  return new HubError("upstream_malformed", `The head of the upstream's answer ${what}`);
}
