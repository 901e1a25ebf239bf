import type { Json, JsonObject } from "../../src/core/json.ts";

/** A request as it came. */
export interface SeenRequest {
  method: string;
  headers: Record<string, string>;
  rpc: string | null;
  /** Of the address. */
  path: string;
}

/** An MCP server over HTTP, HTTP+SSE at `/sse`, and WebSocket at `/ws`, written by hand. */
export interface HttpMcpServer {
  url: string;
  seen: SeenRequest[];
  /** Forgets all sessions; requests of them are answered with this status. */
  forget(status: number): void;
  /** Answers everything with this status; null ends that. */
  refuse(status: number | null, body?: string): void;
  /** Takes no messages at its address any more, as servers do that only know SSE. */
  onlySse: boolean;
  /** Calls are answered with what came with their request, or with the opening of their connection. */
  echoes: boolean;
  /** Requests without this as their `authorization` are refused with 401; null for none. */
  wants: string | null;
  /** Cuts the answer to the next call. */
  cutNext: boolean;
  tools: Json[];
  /** Requests of this method are never answered; null for none. */
  hangsAt: string | null;
  /** Ends all open streams, as a server does that goes down in order. */
  endStreams(): void;
  /** The one revision that it speaks; null for any. */
  revision: string | null;
  stop(): Promise<void>;
}

/** Starts one on a free port. */
export function startHttpMcpServer(): HttpMcpServer {
  const sessions = new Set<string>();
  const streams = new Map<string, ReadableStreamDefaultController<Uint8Array>>();
  const hanging = Promise.withResolvers<void>();
  let staleStatus = 404;
  let refusal: { status: number; body: string } | null = null;
  const encode = (text: string) => new TextEncoder().encode(text);
  const respond = (message: JsonObject, came: Headers): JsonObject | null => {
    const { id, method, params } = message;
    if (id === undefined) return null;
    const result = (result: Json) => ({ jsonrpc: "2.0", id, result });
    switch (method) {
      case "initialize":
        return result({
          protocolVersion: server.revision ?? (params as JsonObject)["protocolVersion"] ?? "",
          capabilities: { tools: {} },
          serverInfo: { name: "by hand", version: "0" },
        });
      case "tools/list":
        return result({ tools: server.tools });
      case "tools/call":
        return result({
          content: [{
            type: "text",
            text: server.echoes ? JSON.stringify(Object.fromEntries(came)) : "called",
          }],
        });
      default:
        return { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } };
    }
  };
  const handle = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url);
    const text = request.method === "POST" ? await request.text() : "";
    const message: JsonObject = text === "" ? {} : JSON.parse(text);
    server.seen.push({
      method: request.method,
      headers: Object.fromEntries(request.headers),
      rpc: typeof message["method"] === "string" ? message["method"] : null,
      path: pathname,
    });
    const { wants } = server;
    if (wants !== null && request.headers.get("authorization") !== wants) {
      const said = server.echoes ? JSON.stringify(Object.fromEntries(request.headers)) : "no";
      return new Response(said, { status: 401 });
    }
    if (server.hangsAt !== null && message["method"] === server.hangsAt) {
      await hanging.promise;
      return new Response(null, { status: 503 });
    }
    if (refusal !== null) return new Response(refusal.body, { status: refusal.status });
    if (pathname === "/ws") return overSocket(request);
    if (pathname === "/sse" || pathname === "/messages") {
      return overEvents(request, { message, session: searchParams.get("session") });
    }
    if (server.onlySse && request.method === "GET") {
      return overEvents(request, { message, session: null });
    }
    if (server.onlySse || request.method !== "POST") {
      return new Response("no", { status: request.method === "DELETE" ? 200 : 405 });
    }
    if (message["method"] === "initialize") {
      const session = crypto.randomUUID();
      sessions.add(session);
      return Response.json(respond(message, request.headers), {
        headers: { "mcp-session-id": session },
      });
    }
    if (!sessions.has(request.headers.get("mcp-session-id") ?? "")) {
      // A probe of the newest revision comes without a session.
      const status = request.headers.has("mcp-session-id") ? staleStatus : 400;
      return new Response("no such session", { status });
    }
    if (message["method"] === "tools/call" && server.cutNext) {
      server.cutNext = false;
      const part = encode('{"jsonrpc":');
      const headers = { "content-type": "application/json", "content-length": "100" };
      return new Response(new ReadableStream({ start: (to) => (to.enqueue(part), to.close()) }), {
        headers,
      });
    }
    const answer = respond(message, request.headers);
    return answer === null ? new Response(null, { status: 202 }) : Response.json(answer);
  };
  const overEvents = (
    request: Request,
    { message, session }: { message: JsonObject; session: string | null },
  ): Response => {
    if (request.method === "POST") {
      const answer = respond(message, request.headers);
      const stream = streams.get(session ?? "");
      if (answer !== null) {
        stream?.enqueue(encode(`event: message\ndata: ${JSON.stringify(answer)}\n\n`));
      }
      return new Response("Accepted", { status: 202 });
    }
    const id = crypto.randomUUID();
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        streams.set(id, controller);
        controller.enqueue(encode(`event: endpoint\ndata: /messages?session=${id}\n\n`));
      },
      cancel: () => void streams.delete(id),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const overSocket = (request: Request): Response => {
    const { socket, response } = Deno.upgradeWebSocket(request, { protocol: "mcp" });
    const onMessage = ({ data }: MessageEvent) => {
      const answer = respond(JSON.parse(data), request.headers);
      if (answer !== null) socket.send(JSON.stringify(answer));
    };
    socket.addEventListener("message", onMessage);
    return response;
  };
  const http = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, handle);
  const server: HttpMcpServer = {
    url: `http://127.0.0.1:${http.addr.port}`,
    seen: [],
    forget(status) {
      sessions.clear();
      staleStatus = status;
    },
    refuse(status, body = "refused") {
      refusal = status === null ? null : { status, body };
    },
    onlySse: false,
    cutNext: false,
    echoes: false,
    wants: null,
    revision: null,
    hangsAt: null,
    endStreams() {
      for (const stream of streams.values()) stream.close();
      streams.clear();
    },
    tools: [{ name: "good", inputSchema: { type: "object" } }],
    async stop() {
      server.endStreams();
      hanging.resolve();
      await http.shutdown();
    },
  };
  return server;
}
