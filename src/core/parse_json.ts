import { HubError } from "./error.ts";
import type { Json } from "./json.ts";
import { MAX_JSON_DEPTH, MAX_JSON_KEYS } from "./limits.ts";
import { wellFormedJson } from "./well_formed.ts";

/** Bounds of a JSON document; the defaults are those of `core/limits.ts`. */
export interface JsonBounds {
  maxDepth?: number;
  maxKeys?: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);
/** Text without any of these cannot name a forbidden key: a name is written plainly or with `\u` escapes. */
const MAY_BE_FORBIDDEN = /__proto__|constructor|prototype|\\u/;

/**
 * Reads a request body as strict JSON (RFC 8259, UTF-8). Depth and keys are counted before anything is built,
 * because `JSON.parse` itself takes five million levels. NUL and lone surrogates, which Postgres cannot keep, become
 * U+FFFD: half of an emoji in a pasted text must not make a chat unusable. Throws `invalid_json` for text that is no JSON, and
 * `invalid_request` past the bounds or for an object key that turns a careless merge into prototype pollution.
 */
export function parseJsonBody(bytes: Uint8Array, bounds: JsonBounds = {}): Json {
  assertBounds(bytes, bounds);
  let text: string;
  let value: Json;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new HubError("invalid_json", "The request body is not UTF-8 text, wanted JSON", {
      cause,
    });
  }
  try {
    value = JSON.parse(text) as Json;
  } catch (cause) {
    throw new HubError("invalid_json", describeFailure(text, cause), { cause });
  }
  if (MAY_BE_FORBIDDEN.test(text)) assertKeys(value);
  // UTF-8 has no surrogates and JSON no plain NUL, so only an escape brings them in.
  return text.includes("\\u") ? wellFormedJson(value) : value;
}

function assertBounds(bytes: Uint8Array, bounds: JsonBounds): void {
  const maxDepth = bounds.maxDepth ?? MAX_JSON_DEPTH;
  const maxKeys = bounds.maxKeys ?? MAX_JSON_KEYS;
  let depth = 0;
  let keys = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = endOfString(bytes, at);
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maxDepth) {
        throw new HubError(
          "invalid_request",
          `The request body nests deeper than ${maxDepth} levels`,
        );
      }
    } else if (byte === 0x5d || byte === 0x7d) depth--;
    else if (byte === COLON && ++keys > maxKeys) {
      throw new HubError("invalid_request", `The request body has more than ${maxKeys} keys`);
    }
  }
}

/** Place of the quote that closes the string opened at `start`, or the end. `indexOf` skips long strings at memory speed. */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let from = start + 1;;) {
    const quote = bytes.indexOf(QUOTE, from);
    if (quote === -1) return bytes.length;
    let escapes = 0;
    while (bytes[quote - 1 - escapes] === BACKSLASH && quote - 1 - escapes > start) escapes++;
    if (escapes % 2 === 0) return quote;
    from = quote + 1;
  }
}

function assertKeys(value: Json): void {
  const waiting: Json[] = [value];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== "object" || next === null) continue;
    if (Array.isArray(next)) {
      for (const item of next) waiting.push(item);
      continue;
    }
    for (const [key, member] of Object.entries(next)) {
      if (FORBIDDEN_KEYS.has(key)) {
        throw new HubError(
          "invalid_request",
          `The request body has a key named ${key}, which no object here may have`,
          { param: key },
        );
      }
      waiting.push(member);
    }
  }
}

/** The parser's own words quote the body, which may hold secrets, so only the place is told. */
function describeFailure(text: string, cause: unknown): string {
  if (text.trim() === "") return "The request body is empty, wanted JSON";
  const place = cause instanceof Error ? /at position (\d+)/.exec(cause.message)?.[1] : undefined;
  const where = place === undefined ? "" : ` (at character ${place})`;
  return `The request body is not valid JSON${where}`;
}
