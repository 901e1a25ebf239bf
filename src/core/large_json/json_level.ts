import { isJsonObject, type Json, type JsonObject } from "../json.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** A container that is open. */
export interface Level {
  isArray: boolean;
  /** Its bracket. */
  start: number;
  /** Where the members begin that are not in `value` yet. */
  from: number;
  /** The last string directly in it, which is the name of the member that follows. */
  nameFrom: number;
  nameTo: number;
  /** Its members so far; null as long as it is read with what is around it. */
  value: Json[] | JsonObject | null;
  /** A member was put into `value` by itself, and nothing but a comma or the end may follow it. */
  isBehindMember: boolean;
}

/** The level of a container whose bracket is at `start` (a byte offset), before any member of it. */
export function openLevel(start: number, isArray: boolean): Level {
  const noMember = { nameFrom: -1, nameTo: -1, value: null, isBehindMember: false };
  return { isArray, start, from: start + 1, ...noMember };
}

/** Puts members into the container of a level, which begins with them; gives how many there were. */
export function addMembers(level: Level, members: Json[] | JsonObject): number {
  if (level.isArray && Array.isArray(members)) {
    const into: Json[] = Array.isArray(level.value) ? level.value : [];
    level.value = into;
    for (const member of members) into.push(member);
    return members.length;
  }
  const into: JsonObject = isJsonObject(level.value) ? level.value : {};
  level.value = into;
  const entries = Object.entries(members);
  for (const [name, member] of entries) setMember(into, name, member);
  return entries.length;
}

/** As `JSON.parse` does: `__proto__` is a name like any other. */
export function setMember(into: JsonObject, name: string, value: Json): void {
  if (name !== "__proto__") into[name] = value;
  else {Object.defineProperty(into, name, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });}
}

/** What a quote costs to look at, in bytes that are passed over. */
const QUOTE_UNITS = 16;

/** Looks for the quote that closes a string, in as many goes as it takes. */
export class StringEnd {
  readonly #bytes: Uint8Array;
  readonly #start: number;
  /** The place of the quote once it is found, or the end of the document; before, how far was looked. */
  at: number;

  /** `start` is the place of the opening quote. */
  constructor(bytes: Uint8Array, start: number) {
    this.#bytes = bytes;
    this.#start = start;
    this.at = start + 1;
  }

  /** Looks at about so many bytes more; true once the end is found. */
  find(units: number): boolean {
    const bytes = this.#bytes;
    for (let left = units; left > 0;) {
      const quote = bytes.indexOf(QUOTE, this.at);
      if (quote === -1) {
        this.at = bytes.length;
        return true;
      }
      let escapes = 0;
      while (bytes[quote - 1 - escapes] === BACKSLASH && quote - 1 - escapes > this.#start) {
        escapes++;
      }
      if (escapes % 2 === 0) {
        this.at = quote;
        return true;
      }
      left -= quote - this.at + QUOTE_UNITS;
      this.at = quote + 1;
    }
    return false;
  }
}

/** True for white space (RFC 8259, 2). */
export const isSpace = (byte: number | undefined) =>
  byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** True for each byte that a number or a word cannot have. */
export const ENDS_WORD: readonly boolean[] = Array.from(
  { length: 256 },
  (_, byte) => isSpace(byte) || '",:[]{}'.includes(String.fromCharCode(byte)),
);
