import { HubError } from "./error.ts";
import type { Json } from "./json.ts";
import { JsonShape } from "./large_json/json_shape.ts";
import type { JsonBounds } from "./large_json/shape_count.ts";
import { wellFormedJson } from "./well_formed.ts";

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
  new JsonShape(bounds).push(bytes);
  return readPiece(bytes, { from: 0, before: "", after: "", reading: "strict" });
}

/** What is made of names and strings: `strict` refuses names that poison prototypes and mends strings, `mended` mends strings alone. */
export type Reading = "strict" | "mended" | "plain";

/** Where a piece of a document stands, and what makes a document of it. */
export interface JsonPiece {
  /** Its place, in bytes; 0 for a whole document. */
  from: number;
  before: string;
  after: string;
  reading: Reading;
}

/** `parseJsonBody` without its bounds, for a part of a document too. */
export function readPiece(
  bytes: Uint8Array,
  { from, before, after, reading }: JsonPiece,
): Json {
  let text: string;
  let value: Json;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: from > 0 }).decode(bytes);
  } catch (cause) {
    throw new HubError("invalid_json", "The request body is not UTF-8 text, wanted JSON", {
      cause,
    });
  }
  try {
    value = JSON.parse(before === "" && after === "" ? text : `${before}${text}${after}`) as Json;
  } catch (cause) {
    const why = from === 0 && before === ""
      ? describeFailure(text, cause)
      : `The request body is not valid JSON (near byte ${from})`;
    throw new HubError("invalid_json", why, { cause });
  }
  if (reading === "plain") return value;
  if (reading === "strict" && MAY_BE_FORBIDDEN.test(text)) assertKeys(value);
  // UTF-8 has no surrogates and JSON no plain NUL, so only an escape brings them in.
  return text.includes("\\u") ? wellFormedJson(value) : value;
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
