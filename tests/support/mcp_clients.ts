import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

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
  close(): Promise<void>;
}

/** The libraries and revisions that the hub is tried with. */
export const MCP_CLIENTS = ["v1", "v1 sse", "v2 legacy", "v2"] as const;

const INFO = { name: "test", version: "1" };

/** Connects to `/mcp` of a hub. */
export async function connectMcp(
  kind: typeof MCP_CLIENTS[number],
  { url, key }: { url: string; key: string },
): Promise<McpClient> {
  const endpoint = new URL(`${url}/mcp`);
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const changes = { count: 0 };
  const onChanged = () => void changes.count++;
  if (kind === "v1" || kind === "v1 sse") {
    const client = new V1Client(INFO, {
      listChanged: { tools: { onChanged, autoRefresh: false, debounceMs: 0 } },
    });
    const transport = kind === "v1"
      ? new V1Transport(endpoint, { requestInit })
      : new SSEClientTransport(new URL(`${url}/mcp/sse`), { requestInit });
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    return {
      changes,
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
    versionNegotiation: { mode: kind === "v2" ? "auto" : "legacy" },
    listChanged: { tools: { onChanged, autoRefresh: false, debounceMs: 0 } },
  });
  const transport = new StreamableHTTPClientTransport(endpoint, { requestInit });
  await client.connect(transport);
  return {
    changes,
    tools: async () => (await client.listTools()).tools as Awaited<ReturnType<McpClient["tools"]>>,
    call: async (name, input, options) =>
      await client.callTool({ name, arguments: input }, options) as McpResult,
    async close() {
      if (kind !== "v2") await transport.terminateSession();
      await client.close();
    },
  };
}
