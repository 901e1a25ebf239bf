import { isJsonObject, type JsonObject } from "../../core/json.ts";
import type { ChatError, ErrorFacts } from "../chat_dialect.ts";
import { errorTextIn } from "../errors/read_error.ts";

/** OpenAI's type and code for each type of error. */
const KINDS: Readonly<Record<string, readonly [type: string, code: string | null]>> = {
  invalid_request_error: ["invalid_request_error", null],
  authentication_error: ["invalid_request_error", "invalid_api_key"],
  billing_error: ["insufficient_quota", "insufficient_quota"],
  permission_error: ["permission_error", "permission_denied"],
  not_found_error: ["invalid_request_error", "model_not_found"],
  conflict_error: ["invalid_request_error", "conflict"],
  request_too_large: ["invalid_request_error", "request_too_large"],
  rate_limit_error: ["rate_limit_error", "rate_limit_exceeded"],
  timeout_error: ["timeout_error", "timeout"],
  api_error: ["server_error", null],
  overloaded_error: ["server_error", "overloaded"],
};

const TOO_LONG = /prompt is too long|exceeds? (the )?context (limit|window)/i;
/** What the account may not, said with a 400. */
const ACCOUNT = /credit balance is too low|reached your specified (API )?usage limits/i;

/** The members of an OpenAI error for `{type: "error", error: {type, message}}`. */
export function decodeMessagesError(native: unknown, status: number): ChatError {
  const error = errorOf(native);
  const message = errorTextIn(native) || `Anthropic's API answered ${status}`;
  if (TOO_LONG.test(message)) {
    return {
      message,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
  }
  const [type, code] = KINDS[String(error["type"])] ??
    [status >= 500 ? "server_error" : "invalid_request_error", null];
  const { details } = error;
  return { message, type, param: null, code, ...(isJsonObject(details) ? { details } : {}) };
}

/** An empty account answers 400, as if the request were wrong. */
export function readMessagesErrorFacts(native: unknown): ErrorFacts {
  return ACCOUNT.test(errorTextIn(native)) ? { status: 402 } : {};
}

function errorOf(native: unknown): JsonObject {
  if (!isJsonObject(native)) return {};
  return isJsonObject(native["error"]) ? native["error"] : native;
}
