import type { Server } from "@modelcontextprotocol/server";

/** Calls `listener` when a server ends, behind whatever is called then already. */
export function onServerClose(server: Server, listener: () => void): void {
  const before = server.onclose;
  const both = () => {
    before?.();
    listener();
  };
  server.onclose = both;
}
