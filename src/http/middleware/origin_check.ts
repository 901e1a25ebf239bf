import { HubError } from "../../core/error.ts";
import type { HubRequest } from "../hub_request.ts";
import { emptyReply, type Reply } from "../reply.ts";

/** Which web pages may call the hub from another origin. */
export interface CorsOptions {
  /** Exact origins such as `https://app.example.com`, or `*`. */
  origins: readonly string[];
}

/** What the check found. */
export interface OriginDecision {
  /** The answer to a preflight; nothing else is to be done. */
  preflight: Reply | null;
  /** Headers of the real answer, names and values in turn. */
  headers: readonly string[];
}

const NOTHING: OriginDecision = Object.freeze({ preflight: null, headers: Object.freeze([]) });
/** `*` does not cover `authorization`, so allowed headers are named one by one. */
const ALLOWED_HEADER =
  /^(?:authorization|content-type|x-api-key|x-request-id|idempotency-key|last-event-id|hub-stream(?:-level)?|user-agent|x-loophub-provider|x-session-(?:id|affinity)|mcp-[a-z0-9-]+|x-stainless-[a-z0-9-]+|openai-[a-z-]+|anthropic-[a-z-]+)$/;
const EXPOSED =
  "x-request-id, x-loophub-overhead-ms, retry-after, retry-after-ms, idempotent-replayed, mcp-session-id";

/**
 * Checks the `Origin` that browsers send. Without configuration only the hub's own pages may call it; a configured
 * origin gets CORS headers (Fetch standard, 3.2). Never reflects an origin that is not listed. Throws
 * `permission_denied`. Programs other than browsers send no Origin and pass.
 */
export function checkOrigin(request: HubRequest, cors: CorsOptions | undefined): OriginDecision {
  const origin = request.header("origin");
  if (origin === null) return NOTHING;
  const any = cors?.origins.includes("*") ?? false;
  if (!any && !(cors?.origins.includes(origin) ?? false)) {
    if (isOwn(origin, request.header("host"))) return NOTHING;
    throw new HubError(
      "permission_denied",
      "This hub does not answer web pages of that origin; list it in its CORS settings",
    );
  }
  const headers = ["access-control-allow-origin", any ? "*" : origin, "vary", "origin"];
  if (
    request.method !== "OPTIONS" || request.header("access-control-request-method") === null
  ) {
    return { preflight: null, headers: [...headers, "access-control-expose-headers", EXPOSED] };
  }
  const asked = (request.header("access-control-request-headers") ?? "").toLowerCase().split(",");
  const granted = asked.map((name) => name.trim()).filter((name) => ALLOWED_HEADER.test(name));
  const preflight = emptyReply(204, {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": granted.join(", "),
    "access-control-max-age": "600",
  });
  return { preflight, headers };
}

function isOwn(origin: string, host: string | null): boolean {
  return host !== null && (origin === `http://${host}` || origin === `https://${host}`);
}
