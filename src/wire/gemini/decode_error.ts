import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { ChatError, ErrorFacts } from "../chat_dialect.ts";
import { errorTextIn } from "../errors/read_error.ts";

const CODES: Readonly<Record<string, string>> = {
  UNAUTHENTICATED: "invalid_api_key",
  PERMISSION_DENIED: "permission_denied",
  NOT_FOUND: "model_not_found",
  RESOURCE_EXHAUSTED: "rate_limit_exceeded",
};

const TOO_LONG = /token count[^]*exceeds|exceeds the maximum number of tokens/i;

/** The members of an OpenAI error for Google's (`google.rpc.Status`, alone or as the one item of a list). */
export function decodeGeminiError(native: unknown, status: number): ChatError {
  const error = errorOf(native);
  const message = errorTextIn(native) || `Gemini answered ${status}`;
  const rpc = typeof error["status"] === "string" ? error["status"] : "";
  if (TOO_LONG.test(message)) {
    return {
      message,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
  }
  const code = isBadKey(error) ? "invalid_api_key" : CODES[rpc] ?? (rpc.toLowerCase() || null);
  return { message, type: typeOf(status, rpc), param: null, code };
}

/** What Google says in the body that belongs into the head: a bad key is a 400 there, the wait is a detail. */
export function readGeminiErrorFacts(native: unknown): ErrorFacts {
  const error = errorOf(native);
  const delay = detailsOf(error).find(({ retryDelay }) => retryDelay !== undefined)?.["retryDelay"];
  const seconds = typeof delay === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined;
  return {
    ...(isBadKey(error) ? { status: 401 } : {}),
    ...(seconds === undefined ? {} : { retryAfterSeconds: Math.ceil(Number(seconds)) }),
  };
}

function typeOf(status: number, rpc: string): string {
  if (status === 429 || rpc === "RESOURCE_EXHAUSTED") return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function isBadKey(error: JsonObject): boolean {
  return detailsOf(error).some(({ reason }) => reason === "API_KEY_INVALID");
}

function detailsOf(error: JsonObject): JsonObject[] {
  const details: Json | undefined = error["details"];
  return Array.isArray(details) ? details.filter(isJsonObject) : [];
}

/** The error object of a body; an empty one for a body that has none. */
function errorOf(native: unknown): JsonObject {
  const body: unknown = Array.isArray(native) ? native[0] : native;
  if (!isJsonObject(body)) return {};
  return isJsonObject(body["error"]) ? body["error"] : body;
}
