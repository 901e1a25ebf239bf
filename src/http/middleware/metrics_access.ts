import { isLoopbackHost } from "../../core/private_address.ts";
import type { HubRequest } from "../hub_request.ts";
import { hostnameOf } from "./host_check.ts";

/** The settings that say who reads metrics. */
export interface MetricsAccess {
  metrics: "local" | "key" | "public";
  publicUrl?: string | undefined;
  trustedHosts?: readonly string[] | undefined;
}

/** Fields by which proxies tell of the client before them. */
const PROXY_FIELDS = [
  ...["forwarded", "via", "cdn-loop", "x-real-ip"],
  ...["x-client-ip", "true-client-ip", "x-cluster-client-ip"],
] as const;
const PROXY_PREFIXES = [
  ...["x-forwarded", "x-original", "x-envoy-", "x-amzn-", "x-appengine-", "x-azure-"],
  ...["cf-", "fastly-", "fly-"],
] as const;

/**
 * Makes the check of requests without a key. A reverse proxy on this machine comes from a loopback address as well, and
 * brings strangers along: none is local to a hub that is told of a public name, nor with a field that a proxy adds, another
 * Host, or HTTP/1.0, which proxies speak by default.
 */
export function createMetricsAccess(
  { metrics, publicUrl, trustedHosts = [] }: MetricsAccess,
): (request: HubRequest) => boolean {
  if (metrics === "public") return () => true;
  const isPublished = trustedHosts.some((host) => !isLoopbackHost(hostnameOf(host))) ||
    publicUrl !== undefined && !isLoopbackHost(new URL(publicUrl).hostname);
  if (metrics === "key" || isPublished) return () => false;
  return (request) =>
    isLoopbackHost(request.remoteAddress.replace(/^::ffff:/i, "")) &&
    isLoopbackHost(hostnameOf(request.header("host") ?? "")) &&
    request.httpVersion === "1.1" &&
    PROXY_FIELDS.every((name) => request.header(name) === null) &&
    PROXY_PREFIXES.every((prefix) => request.headersFrom(prefix).length === 0);
}
