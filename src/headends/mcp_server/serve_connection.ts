import type { Transport } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createProtocolServer, type ProtocolOptions, tellNews } from "./protocol_server.ts";
import type { Caller } from "./served_tool.ts";

/** A connection that is served. */
export interface ServedConnection {
  /** Ends it and what goes on in it. */
  close(): Promise<void>;
}

/**
 * Serves one caller over a connection that stays, in the revision that its first message chooses; `nextCaller` is asked
 * for each request.
 */
export function serveConnection(
  transport: Transport,
  { protocol, nextCaller }: { protocol: ProtocolOptions; nextCaller: () => Caller },
): ServedConnection {
  return serveStdio(() => {
    const server = createProtocolServer(protocol, nextCaller);
    const forget = protocol.catalog.onChange((news) => tellNews(server, news));
    server.onclose = forget;
    return server;
  }, {
    transport,
    onerror: (error) => protocol.log.debug("An MCP connection has trouble", { error }),
  });
}
