import { HubError } from "../../core/error.ts";
import type { HubRequest } from "../hub_request.ts";
import { emptyReply, type Reply } from "../reply.ts";

/** Which web pages may call the hub from another origin. */
export interface CorsOptions {
  /** Exact origins such as `https://app.example.com`, or `*`. */
  origins: readonly string[];
  /** Origins that are the hub's own pages, beside that of the request's Host. */
  own?: readonly string[];
}

/** The origins of the hub's own pages: that of its public address, and the names that it trusts. */
export function ownOrigins(
  { publicUrl, trustedHosts = [] }: {
    publicUrl?: string | undefined;
    trustedHosts?: readonly string[] | undefined;
  },
): string[] {
  const named = trustedHosts.flatMap((host) => [`http://${host}`, `https://${host}`]);
  const all = publicUrl === undefined ? named : [publicUrl, ...named];
  return all.flatMap((url) => URL.canParse(url) ? [new URL(url).origin] : []);
}

/** What the check found. */
export interface OriginDecision {
  /** The answer to a preflight; nothing else is to be done. */
  preflight: Reply | null;
  /** Headers of the real answer, names and values in turn. */
  headers: readonly string[];
}

/** Answers to requests without an Origin are others than those with one: caches have to know. */
const VARIES: OriginDecision = Object.freeze({
  preflight: null,
  headers: Object.freeze(["vary", "origin"]),
});
const NOTHING: OriginDecision = Object.freeze({ preflight: null, headers: Object.freeze([]) });
/** `*` does not cover `authorization`, so allowed headers are named one by one. */
const ALLOWED_HEADER =
  /^(?:accept|authorization|content-type|x-api-key|x-request-id|idempotency-key|last-event-id|hub-stream(?:-level)?|user-agent|x-loophub-(?:cache|provider)|x-mcp-auth-[a-z0-9_-]+|x-session-(?:id|affinity)|mcp-[a-z0-9-]+|x-stainless-[a-z0-9-]+|openai-[a-z-]+|anthropic-[a-z-]+)$/;
const EXPOSED =
  "x-request-id, x-loophub-error-code, x-loophub-overhead-ms, x-loophub-run, x-loophub-session, x-loophub-target, x-loophub-attempts, x-loophub-cache, x-should-retry, retry-after, retry-after-ms, idempotent-replayed, mcp-session-id, x-vercel-ai-ui-message-stream";

/**
 * Checks the `Origin` that browsers send. Without configuration only the hub's own pages may call it, by the request's
 * Host, the public address or a trusted name; a configured
 * origin gets CORS headers (Fetch standard, 3.2). Never reflects an origin that is not listed. Throws
 * `permission_denied`. Programs other than browsers send no Origin and pass.
 */
export function checkOrigin(request: HubRequest, cors: CorsOptions | undefined): OriginDecision {
  const origin = request.header("origin");
  if (origin === null) return (cors?.origins.length ?? 0) === 0 ? NOTHING : VARIES;
  const any = cors?.origins.includes("*") ?? false;
  if (!any && !(cors?.origins.includes(origin) ?? false)) {
    const isOurs = isOwn(origin, request.header("host")) || (cors?.own?.includes(origin) ?? false);
    if (isOurs) return cors?.origins.length ? VARIES : NOTHING;
    throw new HubError(
      "permission_denied",
      "This hub does not answer web pages of that origin; list it in server.cors.origins",
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
