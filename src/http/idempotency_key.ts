import { createHash } from "node:crypto";
import { HubError } from "../core/error.ts";
import { canonicalJson, isJsonObject, type Json } from "../core/json.ts";
import { HANDED_FIELD } from "../mcp/read_handed.ts";
import type { Call } from "./call.ts";

/** What a request with an `Idempotency-Key` is known by. */
export interface IdempotencyFacts {
  /** The client's key within its scope: the API key and the place it was sent to. */
  key: string;
  /** SHA-256 of all that is asked for. */
  bodyHash: Uint8Array;
}

const NAME = "idempotency-key";
const MAX_LENGTH = 255;
const KEY = new RegExp(`^[!-~]{1,${MAX_LENGTH}}$`);

/** How the header is described to those who read `/openapi.json`. */
export const IDEMPOTENCY_HEADER: Readonly<Record<string, string>> = Object.freeze({
  [NAME]: "The same key and body again give the same answer, for 24 hours",
});

/** The request's key, or null. Throws `invalid_request` for one that is no key. */
export function readIdempotencyKey({ request }: Pick<Call, "request">): string | null {
  const key = request.header(NAME);
  if (key === null) return null;
  if (request.isRepeated(NAME)) throw invalid("came more than once");
  if (!KEY.test(key)) throw invalid(`wants 1 to ${MAX_LENGTH} visible ASCII characters`);
  return key;
}

/**
 * What makes a request the same as another: its bytes, and what else chooses the answer. A key never reaches beyond the
 * API key it came with: another's answers stay another's.
 */
export async function idempotencyFacts(
  call: Pick<Call, "principal" | "body" | "readBody">,
  { key, place, asked }: { key: string; place: string; asked: string },
): Promise<IdempotencyFacts> {
  const body = withoutHanded(call.body as Json) ?? await call.readBody();
  return { key: `${call.principal.keyId} ${place} ${key}`, bodyHash: hashRequest(asked, body) };
}

/** The body without credentials, which may be others when it comes again; null when it has none. */
function withoutHanded(body: Json): Uint8Array | null {
  if (!isJsonObject(body) || body[HANDED_FIELD] === undefined) return null;
  const { [HANDED_FIELD]: _, ...rest } = body;
  return new TextEncoder().encode(canonicalJson(rest));
}

/** SHA-256 of a body and of what else is asked, a text without line feeds. */
export function hashRequest(asked: string, body: Uint8Array): Uint8Array {
  return new Uint8Array(createHash("sha256").update(`${asked}\n`).update(body).digest());
}

/** The facts of a request that starts a run in this session; null without a key. */
export async function runIdempotency(
  call: Call,
  sessionId: string,
): Promise<IdempotencyFacts | null> {
  const key = readIdempotencyKey(call);
  if (key === null) return null;
  return await idempotencyFacts(call, { key, place: sessionId, asked: call.search });
}

function invalid(problem: string): HubError {
  return new HubError("invalid_request", `The Idempotency-Key header ${problem}`, {
    param: "Idempotency-Key",
  });
}
