import {
  ERROR_KINDS,
  type ErrorCode,
  HubError,
  type HubErrorOptions,
  type ProviderWords,
} from "../core/error.ts";
import { type ProviderError, readProviderError } from "./errors/read_error.ts";
import { type Redact, showProviderText } from "./provider_text.ts";
import type { WireName } from "./wire_dialect.ts";

/**
 * How servers of this dialect that have no code for it say that a request is longer than their model can read: vLLM,
 * llama.cpp, Mistral, xAI, OpenRouter, Together, Fireworks, LM Studio.
 */
const TOO_LONG =
  /maximum (context|prompt) length|exceeds? (the )?(available|model's|maximum) context|context (length|window|size)[^.]{0,40} exceeded|too large for model with \d+ maximum context|prompt is too long|exceeds? the context (window|length|size)|greater than the context length|inputs? tokens \+ .?max_new_tokens.? must be/i;

/** Types and codes that say which status an error inside a stream would have had. */
const STATUS_OF: Readonly<Record<string, number>> = {
  overloaded_error: 529,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  context_length_exceeded: 400,
  invalid_prompt: 400,
  not_found_error: 404,
  model_not_found: 404,
  request_too_large: 413,
  authentication_error: 401,
  invalid_api_key: 401,
  billing_error: 402,
  permission_error: 403,
  permission_denied: 403,
};

/** Those that say more to a client than that its gateway's upstream has failed (502). */
const SHOWN_5XX: ReadonlySet<number> = new Set([500, 503, 529]);

/** An error as a provider gave it. */
interface Given {
  /** Null for an error in place of an answer that does not say what its status is. */
  status: number | null;
  error: ProviderError;
  /** In what the request was made. */
  wire: WireName;
  details?: Record<string, unknown>;
  headers?: Readonly<Record<string, string>>;
  retryAfterMs?: number | null;
  conflictIsFinal?: boolean | undefined;
  /** What is said where the provider says nothing. */
  silent: string;
}

/**
 * A provider's error answer as the hub's error: its message, code, type and further members are for clients, without
 * secrets, addresses and ids of the account. Of 401, 402 and 403, which are about the hub's own credential, nothing is.
 * The body is kept for the log; `headers` are those that pass to the client.
 */
export function toUpstreamError(
  answer: {
    status: number;
    body: string;
    headers: Readonly<Record<string, string>>;
    nowMs: number;
    redact: Redact;
    /** OpenAI's chat completions unless told. */
    wire?: WireName;
    /** 409 is the request's own fault, and does not mean that another try would do. */
    conflictIsFinal?: boolean;
  },
): HubError {
  const { status, headers, redact, wire = "chat" } = answer;
  return errorOf({
    status,
    error: readProviderError(parsed(answer.body), redact),
    wire,
    headers,
    details: {
      upstreamStatus: status,
      upstreamBody: showProviderText(answer.body, { redact, maxLength: 4000 }),
    },
    retryAfterMs: parseRetryAfter(headers["retry-after"] ?? null, answer.nowMs),
    conflictIsFinal: answer.conflictIsFinal,
    silent: status >= 400 && status < 500
      ? `The provider refused the request (${status})`
      : `The provider failed (${status})`,
  });
}

/**
 * An error that came in place of an answer whose status was good. `isShown`: something of the answer was shown before;
 * then no status can be told, and another try is the caller's decision.
 */
export function toAnswerError(
  error: ProviderError,
  { wire, isShown = false }: { wire: WireName; isShown?: boolean },
): HubError {
  const said = error.status ?? STATUS_OF[error.type ?? ""] ?? STATUS_OF[error.code ?? ""] ?? null;
  const isRefusal = said !== null && said < 500 && !isOfAccount(said) && !isPassing(said);
  const silent = "The provider reported an error in its answer";
  return errorOf({ status: isShown && isRefusal ? null : said, error, wire, silent });
}

function errorOf(given: Given): HubError {
  const { status, error, wire, details, headers, retryAfterMs = null, silent } = given;
  if (status !== null && isOfAccount(status)) {
    const message = `The provider refused the hub's credential or its account (${status})`;
    return new HubError("upstream_unauthorized", message, details === undefined ? {} : { details });
  }
  const text = error.message === "" ? silent : error.message;
  const code = codeOf(given, text);
  const isShownStatus = status !== null && status >= 400 &&
    (status < 500 || SHOWN_5XX.has(status));
  const options: HubErrorOptions = {
    ...(isShownStatus ? { status } : {}),
    ...(details === undefined ? {} : { details }),
    ...(headers === undefined ? {} : { headers }),
    ...(retryAfterMs === null || !ERROR_KINDS[code].retryable ? {} : { retryAfterMs }),
    words: wordsOf(error, wire),
  };
  if (code === "context_length_exceeded") {
    return new HubError(code, text, { ...options, status: 400, param: error.param ?? "messages" });
  }
  const clientCode = code === "upstream_quota_exceeded" ? "insufficient_quota" : error.code;
  return new HubError(code, text, {
    ...options,
    ...(clientCode === null ? {} : { clientCode }),
    ...(error.param === null ? {} : { param: error.param }),
  });
}

function codeOf({ status, error, conflictIsFinal }: Given, text: string): ErrorCode {
  const { code, type } = error;
  if (status === null) return "upstream_error";
  if (status === 429) {
    const hasNoMoney = code === "insufficient_quota" || type === "insufficient_quota";
    return hasNoMoney ? "upstream_quota_exceeded" : "upstream_rate_limited";
  }
  const isTooLong = (status === 400 || status === 413 || status === 422) && TOO_LONG.test(text);
  if (code === "context_length_exceeded" || isTooLong) return "context_length_exceeded";
  if (status < 400 || status > 499) return "upstream_error";
  return isPassing(status) && !(status === 409 && conflictIsFinal === true)
    ? "upstream_error"
    : "upstream_rejected";
}

function wordsOf({ type, extra }: ProviderError, wire: WireName): ProviderWords {
  return { dialect: wire === "messages" || wire === "responses" ? wire : "openai", type, extra };
}

/** About the hub's credential or its account: none of the client's business. */
function isOfAccount(status: number): boolean {
  return status === 401 || status === 402 || status === 403;
}

/** Refusals after which the same request may succeed. */
function isPassing(status: number): boolean {
  return status === 408 || status === 409 || status === 429;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}

/** `Retry-After` (RFC 9110, 10.2.3: seconds or a date) in milliseconds from now; null when absent or unreadable. */
export function parseRetryAfter(value: string | null, nowMs: number): number | null {
  if (value === null) return null;
  if (/^\d+$/.test(value.trim())) return Number(value.trim()) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
}
