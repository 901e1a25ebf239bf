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

/** Place of the quote that closes the string opened at `start`, or the end. */
export function endOfString(bytes: Uint8Array, start: number): number {
  for (let from = start + 1;;) {
    const quote = bytes.indexOf(QUOTE, from);
    if (quote === -1) return bytes.length;
    let escapes = 0;
    while (bytes[quote - 1 - escapes] === BACKSLASH && quote - 1 - escapes > start) escapes++;
    if (escapes % 2 === 0) return quote;
    from = quote + 1;
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
