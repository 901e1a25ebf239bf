import type { Transport } from "@modelcontextprotocol/client";
import type { LoadedMcpServer, McpTransport } from "../config/complete_mcp_servers.ts";
import { createBoundedFetch } from "./bounded_fetch.ts";
import { createTransportAuth } from "./oauth/auth_provider.ts";
import { parseMessage } from "./message_bounds.ts";
import { GRACE_MS, type OpenOptions, type Sdk } from "./open_options.ts";
import { resolveAddress, resolveArguments, resolveRecord } from "./resolve_variables.ts";
import { credentialOf } from "../telemetry/likely_secret.ts";
import { MAX_FRAME_BYTES, StdioTransport } from "./stdio_transport.ts";
import { watchStream } from "./watch_stream.ts";
import { WebSocketTransport } from "./web_socket_transport.ts";

/** Makes the transport to a server, and tells what of its settings may be secret. Throws `NotConfigured`. */
export function createTransport(
  sdk: Sdk,
  server: LoadedMcpServer,
  options: OpenOptions & {
    transport: McpTransport;
    /** The program and arguments that a server's program runs within. */
    within: readonly string[];
    ended: AbortSignal;
    onStreamEnd(): void;
  },
): Transport | StdioTransport | WebSocketTransport {
  const { env, trace, secrets } = options;
  const parse = (text: string) => parseMessage(text, sdk.parseJSONRPCMessage);
  if (options.transport === "stdio") {
    const own = resolveRecord(server.env, options);
    trace?.hide(Object.values(own));
    const from = (name: string) => env(name) === undefined ? {} : { [name]: env(name) ?? "" };
    return new StdioTransport({
      argv: [...options.within, ...resolveArguments(server.argv, options)],
      env: { ...from("PATH"), ...from("HOME"), ...own },
      ...(server.cwd === undefined ? {} : { cwd: server.cwd }),
      graceMs: GRACE_MS,
      clock: options.clock,
      lifeline: options.lifeline,
      onStderr: (text) => trace?.stderr(text),
      parse,
    });
  }
  const configured = resolveRecord(server.headers, options);
  const headers = options.handed?.headersWith(configured) ?? configured;
  trace?.hide(Object.values(headers));
  const url = resolveAddress(server.url ?? "", options);
  if (options.transport === "ws") {
    const { clock } = options;
    return new WebSocketTransport({ url, clock, headers, parse, maxFrameBytes: MAX_FRAME_BYTES });
  }
  const bounded = createBoundedFetch(MAX_FRAME_BYTES, options.ended);
  const sent: typeof bounded = (url, init) => {
    const authorization = new Headers(init?.headers).get("authorization");
    if (authorization !== null) {
      trace?.hide([authorization]);
      secrets.add(credentialOf(authorization));
    }
    return bounded(url, init);
  };
  const followed = options.transport === "sse" ? watchStream(sent, options.onStreamEnd) : sent;
  const fetch = options.handed?.authorize(followed) ?? followed;
  const auth = options.tokens === undefined
    ? { fetch }
    : createTransportAuth(options.tokens, fetch);
  const settings = { requestInit: { headers }, ...auth };
  return options.transport === "sse"
    ? new sdk.SSEClientTransport(new URL(url), settings)
    : new sdk.StreamableHTTPClientTransport(new URL(url), settings);
}
