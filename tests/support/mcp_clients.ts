import {
  Client,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { createHeldFetch } from "./held_fetch.ts";

/** A result of `tools/call` as both libraries give it. */
export interface McpResult {
  content: { type: string; text?: string }[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
  _meta?: Record<string, unknown>;
}

/** An MCP client, whichever library it is of. */
export interface McpClient {
  tools(): Promise<{ name: string; description?: string; inputSchema: object }[]>;
  call(
    name: string,
    input: Record<string, unknown>,
    options?: {
      signal?: AbortSignal;
      onprogress?: (progress: { message?: string | undefined }) => void;
    },
  ): Promise<McpResult>;
  /** Notifications of another list, as they come. */
  changes: { count: number };
  /** URIs of resources that were told to have changed. */
  updates: string[];
  /** Follows a resource; gives what ends that. Rejects when it cannot be followed. */
  follow(uri: string): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** The libraries and revisions that the hub is tried with. */
export const MCP_CLIENTS = ["v1", "v1 sse", "v2 legacy", "v2", "v2 websocket"] as const;

const INFO = { name: "test", version: "1" };

/** Connects to `/mcp` of a hub. */
export async function connectMcp(
  kind: typeof MCP_CLIENTS[number],
  { url, key }: { url: string; key: string },
): Promise<McpClient> {
  const endpoint = new URL(`${url}/mcp`);
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const options = { requestInit, fetch: createHeldFetch() };
  const changes = { count: 0 };
  const onChanged = () => void changes.count++;
  const updates: string[] = [];
  if (kind === "v1" || kind === "v1 sse") {
    const client = new V1Client(INFO, {
      listChanged: { tools: { onChanged, autoRefresh: false, debounceMs: 0 } },
    });
    const transport = kind === "v1"
      ? new V1Transport(endpoint, options)
      : new SSEClientTransport(new URL(`${url}/mcp/sse`), options);
    client.setNotificationHandler(
      ResourceUpdatedNotificationSchema,
      ({ params }: { params: { uri: string } }) => void updates.push(params.uri),
    );
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    return {
      changes,
      updates,
      async follow(uri) {
        await client.subscribeResource({ uri });
        return async () => void await client.unsubscribeResource({ uri });
      },
      tools: async () =>
        (await client.listTools()).tools as Awaited<ReturnType<McpClient["tools"]>>,
      call: async (name, input, options) =>
        await client.callTool(
          { name, arguments: input },
          undefined,
          options as object,
        ) as McpResult,
      async close() {
        if (transport instanceof V1Transport) await transport.terminateSession();
        await client.close();
      },
    };
  }
  const client = new Client(INFO, {
    versionNegotiation: { mode: kind === "v2 legacy" ? "legacy" : "auto" },
    listChanged: { tools: { onChanged, autoRefresh: false, debounceMs: 0 } },
  });
  const transport = kind === "v2 websocket"
    ? new WebSocketTransport(endpoint, requestInit.headers)
    : new StreamableHTTPClientTransport(endpoint, options);
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params: { uri } }) => void updates.push(uri),
  );
  await client.connect(transport);
  return {
    changes,
    updates,
    async follow(uri) {
      if (client.getProtocolEra() !== "modern") {
        await client.subscribeResource({ uri });
        return async () => void await client.unsubscribeResource({ uri });
      }
      const stream = await client.listen({ resourceSubscriptions: [uri] });
      const taken = stream.honoredFilter.resourceSubscriptions ?? [];
      if (!taken.includes(uri)) throw new Error(`${uri} was not taken`);
      return () => stream.close();
    },
    tools: async () => (await client.listTools()).tools as Awaited<ReturnType<McpClient["tools"]>>,
    call: async (name, input, options) =>
      await client.callTool({ name, arguments: input }, options) as McpResult,
    async close() {
      if (kind === "v2 legacy" && transport instanceof StreamableHTTPClientTransport) {
        await transport.terminateSession();
      }
      await client.close();
    },
  };
}

/** The client's side of MCP over a WebSocket, which no library has with headers of its own. */
class WebSocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #url: string;
  readonly #headers: Record<string, string>;
  #socket: WebSocket | null = null;

  constructor(url: URL, headers: Record<string, string>) {
    this.#url = url.href.replace(/^http/, "ws");
    this.#headers = headers;
  }

  start(): Promise<void> {
    const socket = new WebSocket(this.#url, { headers: this.#headers, protocols: ["mcp"] });
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.onmessage?.(JSON.parse(data)));
    return new Promise((resolve, reject) => {
      socket.addEventListener("open", () => resolve());
      socket.addEventListener("error", (event) => {
        reject(new Error(event instanceof ErrorEvent ? event.message : "It broke"));
      });
      socket.addEventListener("close", () => this.onclose?.());
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    this.#socket?.send(JSON.stringify(message));
    return Promise.resolve();
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    if (socket === null || socket.readyState === WebSocket.CLOSED) return;
    const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
    socket.close();
    await closed;
  }
}
