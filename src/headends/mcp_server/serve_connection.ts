import type { Transport } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { NarrowedListens } from "./narrow_listens.ts";
import { onServerClose } from "./on_server_close.ts";
import { createProtocolServer, type ProtocolOptions, tellNews } from "./protocol_server.ts";
import type { Caller } from "./served_tool.ts";
import { concerns } from "./tool_catalog.ts";

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
  const { subscriptions } = protocol;
  const { principal: { keyId } } = nextCaller();
  const wire = subscriptions === undefined
    ? transport
    : new NarrowedListens(transport, { subscriptions, nextCaller });
  return serveStdio(() => {
    const server = createProtocolServer(protocol, nextCaller);
    const forget = protocol.catalog.onChange((news) => {
      if (concerns(news, keyId)) tellNews(server, news);
    });
    onServerClose(server, forget);
    return server;
  }, {
    transport: wire,
    onerror: (error) => protocol.log.debug("An MCP connection has trouble", { error }),
  });
}
