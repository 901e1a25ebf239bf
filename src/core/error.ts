import { hideAddresses } from "./hide_addresses.ts";
import type { JsonObject } from "./json.ts";

/** What one error code means: HTTP status, OpenAI error type, whether the same request may succeed later, log level. */
export interface ErrorKind {
  status: number;
  type: string;
  retryable: boolean;
  level: "debug" | "info" | "warn" | "error";
}

const INVALID = "invalid_request_error";

/** The only table from code to meaning; `http/on_error.ts`, the router and the log all read it. */
export const ERROR_KINDS = {
  invalid_request: { status: 400, type: INVALID, retryable: false, level: "info" },
  invalid_json: { status: 400, type: INVALID, retryable: false, level: "info" },
  invalid_host: { status: 400, type: INVALID, retryable: false, level: "info" },
  context_length_exceeded: { status: 400, type: INVALID, retryable: false, level: "info" },
  invalid_api_key: { status: 401, type: INVALID, retryable: false, level: "info" },
  permission_denied: { status: 403, type: "permission_error", retryable: false, level: "info" },
  not_found: { status: 404, type: INVALID, retryable: false, level: "info" },
  model_not_found: { status: 404, type: INVALID, retryable: false, level: "info" },
  method_not_allowed: { status: 405, type: INVALID, retryable: false, level: "info" },
  conflict: { status: 409, type: INVALID, retryable: false, level: "info" },
  body_too_large: { status: 413, type: INVALID, retryable: false, level: "info" },
  unsupported_media_type: { status: 415, type: INVALID, retryable: false, level: "info" },
  idempotency_mismatch: { status: 422, type: INVALID, retryable: false, level: "info" },
  rate_limit_exceeded: { status: 429, type: "rate_limit_error", retryable: true, level: "info" },
  insufficient_quota: { status: 429, type: "insufficient_quota", retryable: false, level: "info" },
  /** Only reservations of calls under way leave no room in a budget: their settlement may make some in a moment. */
  budget_reserved: { status: 429, type: "insufficient_quota", retryable: true, level: "info" },
  client_closed: { status: 499, type: "client_closed", retryable: false, level: "debug" },
  internal_error: { status: 500, type: "server_error", retryable: false, level: "error" },
  /** The upstream refused the request itself (4xx other than 401 to 403, 408, 409, 429): its status is in `HubError.status`. */
  upstream_rejected: { status: 400, type: INVALID, retryable: false, level: "info" },
  /** The upstream answered 429. */
  upstream_rate_limited: { status: 429, type: "rate_limit_error", retryable: true, level: "warn" },
  /** The upstream answered 429 as its account has no money left: another try of the same account is of no use. */
  upstream_quota_exceeded: {
    status: 429,
    type: "insufficient_quota",
    retryable: false,
    level: "warn",
  },
  /** The upstream refused the hub's own credential (401, 402, 403): never the client's fault. */
  upstream_unauthorized: { status: 502, type: "server_error", retryable: false, level: "error" },
  /** The upstream answered 408, 409 or 5xx (those, 500, 503 and 529 are kept in `HubError.status`), or an error object inside a 200 stream. */
  upstream_error: { status: 502, type: "server_error", retryable: true, level: "warn" },
  /** No connection: refused, DNS, TLS. */
  upstream_unreachable: { status: 502, type: "server_error", retryable: true, level: "warn" },
  /** The connection ended before the answer was whole. */
  upstream_cut: { status: 502, type: "server_error", retryable: true, level: "warn" },
  /** The answer was not what the dialect allows (bad JSON, oversize frame, wrong content type). */
  upstream_malformed: { status: 502, type: "server_error", retryable: true, level: "warn" },
  /** Connect, first-token, inactivity or total timer. */
  upstream_timeout: { status: 504, type: "timeout_error", retryable: true, level: "warn" },
  /** An MCP server wants an authorization that nobody has given, or no longer takes the one it had. */
  needs_authorization: { status: 403, type: "permission_error", retryable: false, level: "info" },
  /** A foreign server said what the hub does not follow: an unsafe address, another issuer, another resource. */
  unsafe_server: { status: 502, type: "server_error", retryable: false, level: "warn" },
  /** The hub refuses what it could do later. There are many of these at a time: gates log how many, not each. */
  overloaded: { status: 503, type: "server_error", retryable: true, level: "info" },
  shutting_down: { status: 503, type: "server_error", retryable: true, level: "info" },
  database_unavailable: { status: 503, type: "server_error", retryable: true, level: "error" },
  /** This replica no longer owns the run; it must stop writing. */
  lease_lost: { status: 503, type: "server_error", retryable: true, level: "warn" },
  /** The run was stopped on request. */
  aborted: { status: 499, type: "aborted", retryable: false, level: "info" },
  /** A configuration file or environment value is wrong. */
  invalid_configuration: { status: 500, type: "server_error", retryable: false, level: "error" },
} as const satisfies Record<string, ErrorKind>;

/** Every error code of the hub. */
export type ErrorCode = keyof typeof ERROR_KINDS;

/** Errors about upstreams that failed: where an upstream is, is not for clients to know. */
const ABOUT_UPSTREAMS = /^upstream_/;

/** What a provider says of its failure in the words of its dialect, for clients of the same dialect. */
export interface ProviderWords {
  dialect: "openai" | "responses" | "messages";
  /** The error's type; null when it has none. */
  type: string | null;
  /** Further members of its error object (Anthropic's `details`, OpenRouter's `metadata`), bounded and cleaned. */
  extra: JsonObject;
}

/** Optional facts of an error. */
export interface HubErrorOptions {
  /** Overrides the table's status (a provider's own 4xx, 500 or 503). */
  status?: number;
  /** Request parameter at fault, as OpenAI's `param`. */
  param?: string;
  /** Code shown to clients instead of the hub's own (a provider's `context_length_exceeded`). */
  clientCode?: string;
  /** What the provider said, when it is the provider's error. */
  words?: ProviderWords | undefined;
  /** Earliest moment a retry makes sense, in milliseconds from now. */
  retryAfterMs?: number;
  /** Fields of the answer to the client, names in lower case (a provider's `x-ratelimit-*`). */
  headers?: Readonly<Record<string, string>>;
  /** Facts for the log; never sent to a client. */
  details?: Record<string, unknown>;
  cause?: unknown;
}

/**
 * The one error class. `message` is for users: what was tried, what came, what was wanted; never a secret. Of errors about
 * upstreams it never has an address either: the text that had one is `details.text`, for the log.
 */
export class HubError extends Error {
  override readonly name = "HubError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly param: string | undefined;
  readonly clientCode: string;
  readonly words: ProviderWords | undefined;
  readonly retryAfterMs: number | undefined;
  /** May be added to on the way to the client. */
  headers: Readonly<Record<string, string>> | undefined;
  readonly details: Record<string, unknown> | undefined;

  constructor(code: ErrorCode, message: string, options: HubErrorOptions = {}) {
    const shown = ABOUT_UPSTREAMS.test(code) ? hideAddresses(message) : message;
    super(shown, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status ?? ERROR_KINDS[code].status;
    this.param = options.param;
    this.clientCode = options.clientCode ?? code;
    this.retryAfterMs = options.retryAfterMs;
    this.headers = options.headers;
    this.words = options.words;
    this.details = shown === message ? options.details : { text: message, ...options.details };
  }

  /** The row of this error's code. */
  get kind(): ErrorKind {
    return ERROR_KINDS[this.code];
  }
}

/** The error itself, or an `internal_error` that hides an unknown one's text from clients and keeps it as cause. */
export function toHubError(error: unknown): HubError {
  if (error instanceof HubError) return error;
  return new HubError("internal_error", "The hub failed to handle this request", { cause: error });
}
