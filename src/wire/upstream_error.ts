import { HubError } from "../core/error.ts";
import { isJsonObject } from "../core/json.ts";
import { type Redact, showProviderText } from "./provider_text.ts";

/**
 * How servers of this dialect that have no code for it say that a request is longer than their model can read: vLLM,
 * llama.cpp, Mistral, xAI, OpenRouter, Together, Fireworks, LM Studio.
 */
const TOO_LONG =
  /maximum (context|prompt) length|exceeds? (the )?(available|model's|maximum) context|context (length|window|size)[^.]{0,40} exceeded|too large for model with \d+ maximum context|prompt is too long|exceeds? the context (window|length|size)|greater than the context length|inputs? tokens \+ .?max_new_tokens.? must be/i;

/**
 * A provider's error answer as the hub's error. The provider's own words reach the client only when the fault is the
 * client's (4xx other than 401, 402, 403, 408, 409, 429), and without secrets; the body is kept for the log.
 * `headers` are those that pass to the client; 429, 500 and 503 stay what they are, so that its own retries fit.
 */
export function toUpstreamError(
  answer: {
    status: number;
    body: string;
    headers: Readonly<Record<string, string>>;
    nowMs: number;
    redact: Redact;
    /** 409 is the request's own fault, and does not mean that another try would do. */
    conflictIsFinal?: boolean;
  },
): HubError {
  const { status, headers, redact } = answer;
  const error = errorObject(answer.body);
  const providerCode = error["code"];
  const details = {
    upstreamStatus: status,
    upstreamBody: showProviderText(answer.body, { redact, maxLength: 4000 }),
  };
  const retryAfterMs = parseRetryAfter(headers["retry-after"] ?? null, answer.nowMs);
  const wait = retryAfterMs === null ? {} : { retryAfterMs };
  if (status === 429) {
    const message = "The provider limits the rate of requests (429)";
    return new HubError("upstream_rate_limited", message, { details, headers, ...wait });
  }
  if (status === 401 || status === 402 || status === 403) {
    const message = `The provider refused the hub's credential or its account (${status})`;
    return new HubError("upstream_unauthorized", message, { details });
  }
  const said = typeof error["message"] === "string"
    ? showProviderText(error["message"], { redact })
    : "";
  const text = said === "" ? `The provider refused the request (${status})` : said;
  const isTooLong = (status === 400 || status === 413 || status === 422) && TOO_LONG.test(text);
  if (providerCode === "context_length_exceeded" || isTooLong) {
    return new HubError("context_length_exceeded", text, { details, headers, param: "messages" });
  }
  if (
    status >= 400 && status < 500 && status !== 408 && (status !== 409 || answer.conflictIsFinal)
  ) {
    return new HubError("upstream_rejected", text, {
      status,
      details,
      headers,
      ...(typeof providerCode === "string"
        ? { clientCode: showProviderText(providerCode, { redact }) }
        : {}),
      ...(typeof error["param"] === "string"
        ? { param: showProviderText(error["param"], { redact }) }
        : {}),
    });
  }
  return new HubError("upstream_error", `The provider failed (${status})`, {
    details,
    headers,
    ...wait,
    ...(status === 500 || status === 503 || status === 529 ? { status } : {}),
  });
}

function errorObject(body: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(body);
    if (!isJsonObject(parsed)) return {};
    if (isJsonObject(parsed["error"])) return parsed["error"];
    return typeof parsed["error"] === "string" ? { message: parsed["error"] } : parsed;
  } catch {
    return {};
  }
}

/** `Retry-After` (RFC 9110, 10.2.3: seconds or a date) in milliseconds from now; null when absent or unreadable. */
export function parseRetryAfter(value: string | null, nowMs: number): number | null {
  if (value === null) return null;
  if (/^\d+$/.test(value.trim())) return Number(value.trim()) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
}
