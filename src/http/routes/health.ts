import { Type } from "@sinclair/typebox";
import type { HubRequest } from "../hub_request.ts";
import { bytesReply, jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";

/** What the routes for operators' machines need. */
export interface HealthOptions {
  /** Why this replica should get no traffic; null when it should. */
  notReady(): Promise<string | null>;
  metrics: { render(): Promise<string>; contentType: string };
  /** Whether a request gets metrics without a key. */
  needsNoKey(request: HubRequest): boolean;
}

/** `/healthz`, `/readyz` and `/metrics`. */
export function healthRoutes(options: HealthOptions): Route[] {
  const Status = Type.Object({ status: Type.String(), reason: Type.Optional(Type.String()) });
  return [
    defineRoute({
      method: "GET",
      path: "/healthz",
      auth: "public",
      isPolled: true,
      tag: "operations",
      summary: "Whether the process answers",
      responses: { 200: { description: "It does", schema: Status } },
      handle: () => jsonReply({ status: "ok" }),
    }),
    defineRoute({
      method: "GET",
      path: "/readyz",
      auth: "public",
      isPolled: true,
      tag: "operations",
      summary: "Whether this replica should get traffic",
      responses: {
        200: { description: "It should", schema: Status },
        503: { description: "It should not", schema: Status },
      },
      async handle() {
        const reason = await options.notReady();
        return reason === null
          ? jsonReply({ status: "ready" })
          : jsonReply({ status: "not ready", reason }, {
            status: 503,
            headers: { "retry-after": "1" },
          });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/metrics",
      auth: "user",
      takesRoom: false,
      needsNoKey: (request) => options.needsNoKey(request),
      isPolled: true,
      tag: "operations",
      summary: "Metrics in the Prometheus text format",
      responses: { 200: { description: "Metrics", contentType: "text/plain" } },
      async handle() {
        const text = await options.metrics.render();
        return bytesReply(text, { contentType: options.metrics.contentType });
      },
    }),
  ];
}
