import { HubError } from "../core/error.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { isJsonObject } from "../core/json.ts";
import { parsePlainJson } from "../core/large_json/json_in_steps.ts";
import type { JsonBounds } from "../core/large_json/shape_count.ts";
import { MemberScan } from "./member_scan.ts";

/** An answer may have as many values as its bytes hold, but not nest without end. */
const BOUNDS = {
  maxDepth: 512,
  maxKeys: Infinity,
  maxValues: Infinity,
  maxMembers: Infinity,
} as const;
/** Bounds of an answer that is written again in another dialect, whose values are all built. */
export const TRANSLATED_BOUNDS: JsonBounds = {
  maxDepth: 128,
  maxKeys: 200_000,
  maxValues: 500_000,
};
const BRACE = 0x7b;
const BRACKET = 0x5b;
const MARK = [0xef, 0xbb, 0xbf] as const;

/**
 * Some members of an answer that is one JSON object: building the values of all others would cost more than the rest.
 * Those of `present` come empty: `[]` for a list, null for anything else. Rejects `upstream_malformed` for what is no
 * JSON object.
 */
export async function readAnswerMembers(
  answer: Uint8Array,
  { wanted, present = new Set() }: {
    wanted: ReadonlySet<string>;
    present?: ReadonlySet<string>;
  },
): Promise<JsonObject> {
  const bytes = withoutMark(answer);
  const found: JsonObject = {};
  const scanner = new MemberScan(bytes, (key, span) => {
    if (wanted.has(key)) found[key] = scanner.parse(span) as Json;
    else if (present.has(key)) found[key] = bytes[span.from] === BRACKET ? [] : null;
  }, BOUNDS);
  try {
    await scanner.scanInSteps();
  } catch (cause) {
    const isOther = bytes.find((byte) => byte > 0x20) !== BRACE;
    throw malformed(isOther ? "is not a JSON object" : "is not JSON", cause);
  }
  return found;
}

/** A whole answer that is one JSON object. Rejects `upstream_malformed` for another one. */
export async function parseAnswer(
  answer: Uint8Array,
  bounds: JsonBounds = BOUNDS,
): Promise<JsonObject> {
  let value: Json;
  try {
    value = await parsePlainJson(withoutMark(answer), { bounds });
  } catch (cause) {
    const isPastBound = cause instanceof HubError && cause.code === "invalid_request";
    throw malformed(isPastBound ? "is past the bounds of the hub" : "is not JSON", cause);
  }
  if (isJsonObject(value)) return value;
  throw malformed("is not a JSON object");
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return MARK.every((byte, at) => bytes[at] === byte) ? bytes.subarray(MARK.length) : bytes;
}

function malformed(how: string, cause?: unknown): HubError {
  return new HubError("upstream_malformed", `The provider's answer ${how}`, { cause });
}
