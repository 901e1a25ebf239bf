import { Type } from "@sinclair/typebox";
import { wantsWebSocket } from "../../http/upgrade.ts";
import { defineRoute, type Route } from "../../http/route.ts";
import type { McpEndpoint } from "./mcp_endpoint.ts";
import type { SseEndpoint } from "./sse_endpoint.ts";
import type { WsEndpoint } from "./ws_endpoint.ts";

/** What answers, by transport. */
export interface McpEndpoints {
  endpoint: Pick<McpEndpoint, "handle">;
  sse: Pick<SseEndpoint, "open" | "post">;
  ws: Pick<WsEndpoint, "open">;
}

const EMPTY = { contentType: "application/json" };
const MAX_BODY_BYTES = 8 * 1024 * 1024;

/**
 * The hub as an MCP server. Requests take no room by themselves: what cancels a call must get in when the hub is full.
 * Calls of tools do.
 */
export function mcpRoutes({ endpoint, sse, ws }: McpEndpoints): Route[] {
  const shared = { auth: "user", tag: "mcp", takesRoom: false } as const;
  return [
    defineRoute({
      ...shared,
      method: "POST",
      path: "/mcp",
      summary: "MCP: messages of a client (Streamable HTTP)",
      description:
        "Revisions 2024-11-05 to 2025-11-25 with sessions, 2026-07-28 without. Tools are what the key may use.",
      headers: {
        "mcp-session-id": "The session, in revisions that have them",
        "mcp-protocol-version": "The revision",
      },
      body: "raw",
      maxBodyBytes: MAX_BODY_BYTES,
      responses: {
        200: { description: "JSON-RPC answers", schema: Type.Unknown(), orStream: true },
        202: { description: "Nothing was asked, and no body", ...EMPTY },
        400: { description: "No message of the protocol" },
        404: { description: "There is no such session" },
      },
      handle: (call) => endpoint.handle(call),
    }),
    defineRoute({
      ...shared,
      method: "GET",
      path: "/mcp",
      summary: "MCP: what the hub says by itself in a session, or all of it over a WebSocket",
      responses: {
        101: { description: "It goes on as a WebSocket, when `upgrade` asks for one" },
        200: { description: "Messages", contentType: "text/event-stream" },
      },
      handle: (call) => wantsWebSocket(call.request) ? ws.open(call) : endpoint.handle(call),
    }),
    defineRoute({
      ...shared,
      method: "DELETE",
      path: "/mcp",
      summary: "MCP: end a session",
      responses: { 200: { description: "It has ended; no body", ...EMPTY } },
      handle: (call) => endpoint.handle(call),
    }),
    defineRoute({
      ...shared,
      method: "GET",
      path: "/mcp/sse",
      summary: "MCP: a stream for a client of revision 2024-11-05",
      responses: { 200: { description: "Messages", contentType: "text/event-stream" } },
      handle: (call) => sse.open(call),
    }),
    defineRoute({
      ...shared,
      method: "POST",
      path: "/mcp/sse/message",
      summary: "MCP: a message of a client of revision 2024-11-05",
      query: Type.Object({ sessionId: Type.String({ minLength: 1, maxLength: 100 }) }),
      body: "raw",
      maxBodyBytes: MAX_BODY_BYTES,
      responses: {
        202: {
          description: "What there is to say comes on the stream",
          contentType: "text/plain",
        },
        400: { description: "No message of the protocol" },
        404: { description: "There is no such stream" },
      },
      handle: (call) => sse.post(call),
    }),
  ];
}
