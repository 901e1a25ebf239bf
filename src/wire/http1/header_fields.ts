import { Buffer } from "node:buffer";

const { latin1Slice } = Buffer.prototype;
const CR = 13;
const LF = 10;
const COLON = 58;

/** 1 for each byte of a token (RFC 9110, 5.6.2). */
export const TOKEN: Readonly<Uint8Array> = tokenTable();

/** The first character that a value must not have: a control but for the tab, or one that is no byte. */
export const BAD_IN_VALUE = /[^\t -~\x80-\xff]/;

function tokenTable(): Uint8Array {
  const table = new Uint8Array(256);
  const characters =
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (const character of characters) table[character.charCodeAt(0)] = 1;
  return table;
}

/** Why bytes are no header fields; the end of a sentence whose subject is the head. */
export class MalformedHead extends Error {
  /** True when it has more fields than were wanted, whatever they are. */
  readonly tooMany: boolean;

  constructor(message: string, { tooMany = false } = {}) {
    super(message);
    this.tooMany = tooMany;
  }
}

/** The fields of a head. Names and values stay bytes until somebody asks. */
export class HeaderFields {
  readonly #bytes: Uint8Array;
  /** Per field: start and end of its name, start and end of its value. */
  readonly #places: readonly number[];

  constructor(bytes: Uint8Array, places: readonly number[]) {
    this.#bytes = bytes;
    this.#places = places;
  }

  /** Number of fields. */
  get count(): number {
    return this.#places.length / 4;
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

  /** True when more than one field has this name (lower case). */
  isRepeated(name: string): boolean {
    const at = this.#find(name, 0);
    return at >= 0 && this.#find(name, at + 4) >= 0;
  }

  /** All fields in order, names in lower case, values as Latin-1. */
  pairs(): [string, string][] {
    return this.startingWith([""]);
  }

  /** The fields whose names begin with one of these (lower case), in order. */
  startingWith(prefixes: readonly string[]): [string, string][] {
    const pairs: [string, string][] = [];
    const places = this.#places;
    for (let at = 0; at < places.length; at += 4) {
      if (!prefixes.some((prefix) => this.#begins(at, prefix))) continue;
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
    for (let at = from; at < places.length; at += 4) {
      const length = (places[at + 1] ?? 0) - (places[at] ?? 0);
      if (length === name.length && this.#begins(at, name)) return at;
    }
    return -1;
  }

  #begins(at: number, prefix: string): boolean {
    const start = this.#places[at] ?? 0;
    if ((this.#places[at + 1] ?? 0) - start < prefix.length) return false;
    for (let i = 0; i < prefix.length; i++) {
      const byte = this.#bytes[start + i] ?? 0;
      const lower = byte >= 65 && byte <= 90 ? byte | 32 : byte;
      if (lower !== prefix.charCodeAt(i)) return false;
    }
    return true;
  }
}

/**
 * Parses header lines from `from` up to the blank line, which must be there, as strictly as RFC 9112 lets a receiver: no
 * folded lines, no bare CR or LF, no space before a colon, no control characters. Throws `MalformedHead`.
 */
export function parseFields(
  bytes: Uint8Array,
  { from, maxFields }: { from: number; maxFields: number },
): HeaderFields {
  let at = from;
  const places: number[] = [];
  while (bytes[at] !== CR) {
    if (places.length >= maxFields * 4) {
      throw new MalformedHead(`has more than ${maxFields} fields`, { tooMany: true });
    }
    const nameStart = at;
    while (TOKEN[bytes[at] ?? 0] === 1) at++;
    if (at === nameStart || bytes[at] !== COLON) {
      throw new MalformedHead("has a line that is no `name: value`");
    }
    const nameEnd = at++;
    const end = endOfLine(bytes, at);
    let valueEnd = end;
    while (at < valueEnd && isBlank(bytes[at])) at++;
    while (valueEnd > at && isBlank(bytes[valueEnd - 1])) valueEnd--;
    places.push(nameStart, nameEnd, at, valueEnd);
    at = end + 2;
  }
  if (bytes[at + 1] !== LF) throw new MalformedHead("has a bare carriage return");
  return new HeaderFields(bytes, places);
}

/** The CR of the CRLF that ends the line which `from` is in. Throws `MalformedHead` for a control character before it. */
export function endOfLine(bytes: Uint8Array, from: number): number {
  let at = from;
  for (;; at++) {
    const byte = bytes[at] ?? 0;
    if (byte >= 32 ? byte !== 127 : byte === 9) continue;
    if (byte === CR && bytes[at + 1] === LF) return at;
    throw new MalformedHead("has a control character in a line");
  }
}

/** Place behind the blank line that ends a head, or -1 while it has not come. `from` is how far an earlier call has seen. */
export function findBlankLine(bytes: Uint8Array, from: number): number {
  let at = Math.max(0, from - 3);
  for (;;) {
    at = bytes.indexOf(CR, at);
    if (at < 0 || at + 3 >= bytes.length) return -1;
    if (bytes[at + 1] === LF && bytes[at + 2] === CR && bytes[at + 3] === LF) return at + 4;
    at++;
  }
}

/** A part of the bytes as text, a character for a byte. The method of `Buffer` is many times faster than a decoder. */
export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return latin1Slice.call(bytes, from, to);
}

const isBlank = (byte: number | undefined) => byte === 32 || byte === 9;
