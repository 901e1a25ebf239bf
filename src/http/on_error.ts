import { HubError, toHubError } from "../core/error.ts";
import { messagesErrorBody } from "../wire/messages/error_body.ts";
import { bytesReply, jsonReply, type Reply } from "./reply.ts";

/** OpenAI's error body; a provider's own members may stand beside these. */
export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string };
}

/** The body of an error, also for an error frame inside a stream. */
export function errorBody(error: HubError): ErrorBody {
  const { message, kind, param, clientCode, words } = error;
  const own = words === undefined || words.dialect === "messages" ? null : words;
  const type = own?.type ?? kind.type;
  return { error: { ...own?.extra, message, type, param: param ?? null, code: clientCode } };
}

/** OpenAI's shape, Anthropic's, Ollama's, or the sentence alone, for clients that show the body. */
export type ErrorShape = "json" | "messages" | "ollama" | "text";

/** Has the code of an error that is sent as a sentence alone. */
export const CODE_HEADER = "x-loophub-error-code";

/** How an error is sent. */
export interface ErrorReplyOptions {
  headers?: Readonly<Record<string, string>>;
  /** OpenAI's shape unless told. */
  as?: ErrorShape;
  requestId?: string;
}

/**
 * The answer to a request that failed. Unknown errors become `internal_error` without their text. `x-should-retry`
 * tells the clients made with OpenAI's and Anthropic's generator not to repeat what cannot heal.
 */
export function errorReply(
  failure: unknown,
  { headers, as = "json", requestId = "" }: ErrorReplyOptions = {},
): Reply {
  const error = toHubError(failure);
  const { status } = error;
  const all: Record<string, string> = { ...error.headers, ...headers };
  if (!error.kind.retryable) all["x-should-retry"] = "false";
  else if (error.code === "budget_reserved") all["x-should-retry"] = "true";
  if (error.retryAfterMs !== undefined) {
    all["retry-after"] = String(Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
    all["retry-after-ms"] = String(Math.max(0, Math.ceil(error.retryAfterMs)));
  }
  if (status === 401) all["www-authenticate"] = 'Bearer realm="loophub"';
  if (as !== "text") {
    const body = as === "json"
      ? errorBody(error)
      : as === "ollama"
      ? { error: error.message }
      : messagesErrorBody(error, requestId);
    return jsonReply(body, { status, headers: all });
  }
  return bytesReply(error.message, {
    contentType: "text/plain; charset=utf-8",
    status,
    headers: { ...all, [CODE_HEADER]: error.clientCode },
  });
}
