// A client of MCP over a WebSocket at the port of its argument; prints `open` once it is.
import { parseJSONRPCMessage } from "@modelcontextprotocol/client";
import { WebSocketTransport } from "../../src/mcp/web_socket_transport.ts";
import { REAL_CLOCK } from "../http/fixture.ts";

const transport = new WebSocketTransport({
  url: `ws://127.0.0.1:${Deno.args[0]}`,
  clock: REAL_CLOCK,
  headers: {},
  parse: (text) => parseJSONRPCMessage(JSON.parse(text)),
  maxFrameBytes: 8 * 1024 * 1024,
});
await transport.start();
await Deno.stdout.write(new TextEncoder().encode("open\n"));
// The parent looks at this process's memory before it ends it.
setInterval(() => {}, 1000);
