import type { Json } from "../core/json.ts";
import { MAX_BODY_BYTES, MAX_JSON_DEPTH } from "../core/limits.ts";
import { findHostileJson } from "./hostile_json.ts";

/** A value read from text, or a sentence about why there is none. */
export type JsonRead = { ok: true; value: Json } | { ok: false; problem: string };

/** Reads strict JSON that a model or a server wrote, within the hub's bounds of length, depth, keys and names. Never throws. */
export function readJson(text: string): JsonRead {
  if (text.length > MAX_BODY_BYTES) {
    return { ok: false, problem: `The text is longer than ${MAX_BODY_BYTES} characters` };
  }
  if (nestsTooDeep(text)) {
    return { ok: false, problem: `The text nests deeper than ${MAX_JSON_DEPTH} levels` };
  }
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unreadable";
    return { ok: false, problem: `The text is not valid JSON: ${reason}` };
  }
  const hostile = findHostileJson(value);
  if (hostile !== null) {
    return { ok: false, problem: `The text holds ${hostile.got}, wanted ${hostile.wanted}` };
  }
  const lost = findLostNumber(text);
  if (lost === null) return { ok: true, value };
  const shown = lost.length <= 40 ? lost : `${lost.slice(0, 40)}…`;
  return {
    ok: false,
    problem: `The text holds the number ${shown}, which no 64-bit float keeps as it is: ` +
      "wanted a smaller one, or a string",
  };
}

/** Only numbers like these can become another one, `null` or 0. */
const MAY_BE_LOST = /\d{16}|[eE][+-]?\d{3}/;
const NUMBER = /-?[\d.eE+-]+/y;

/** The first number of a JSON text that reading changes: beyond all floats, a whole one that loses digits, or one that becomes 0. */
function findLostNumber(text: string): string | null {
  if (!MAY_BE_LOST.test(text)) return null;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x22) at = endOfString(text, at);
    if (char !== 0x2d && (char < 0x30 || char > 0x39)) continue;
    NUMBER.lastIndex = at;
    const source = NUMBER.exec(text)?.[0] ?? "0";
    if (isLost(source)) return source;
    at += source.length - 1;
  }
  return null;
}

function isLost(source: string): boolean {
  const value = Number(source);
  if (!Number.isFinite(value)) return true;
  if (value === 0) return /^[^eE]*[1-9]/.test(source);
  return !Number.isSafeInteger(value) && /^-?\d+$/.test(source) &&
    String(value) !== source && BigInt(value).toString() !== source;
}

/** Place of the quote that closes the JSON string opened at `at`; the text's length when none does. */
export function endOfString(text: string, at: number): number {
  for (let end = at + 1; end < text.length; end++) {
    const char = text.charCodeAt(end);
    if (char === 0x5c) end++;
    else if (char === 0x22) return end;
  }
  return text.length;
}

/** `JSON.parse` needs 0.8 s for five million brackets, so the depth is counted before. */
function nestsTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x22) at = endOfString(text, at);
    else if (char === 0x5b || char === 0x7b) {
      if (++depth > MAX_JSON_DEPTH) return true;
    } else if (char === 0x5d || char === 0x7d) depth--;
  }
  return false;
}
