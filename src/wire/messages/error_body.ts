import type { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { THREAD_UNSUPPORTED } from "./scan_request.ts";

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/** An error as the Messages API tells it, whole answers and events of a stream alike. */
export function messagesErrorBody(error: HubError, requestId: string): JsonObject {
  return {
    type: "error",
    error: { ...detailsOf(error), type: typeOf(error), message: messageOf(error) },
    request_id: requestId,
  };
}

function typeOf({ status, clientCode, words }: HubError): string {
  if (words?.dialect === "messages" && words.type !== null) return words.type;
  if (clientCode === "insufficient_quota") return "billing_error";
  if (clientCode === "overloaded") return "overloaded_error";
  return TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** Clients know a request that is too long by its words. */
function messageOf({ code, clientCode, message }: HubError): string {
  const tooLong = code === "context_length_exceeded" || clientCode === "context_length_exceeded";
  if (!tooLong || /prompt is too long/i.test(message)) return message;
  return `prompt is too long: ${message}`;
}

/** What the provider says beside the message, `details` for one: clients of its SDK act on it. */
function detailsOf({ clientCode, words }: HubError): JsonObject {
  if (words?.dialect === "messages") return words.extra;
  if (clientCode !== THREAD_UNSUPPORTED) return {};
  return { details: { error_code: clientCode, unsupported: ["thread"] } };
}
