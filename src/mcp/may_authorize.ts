import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";

/** Whether the hub may get tokens for a server: it is spoken to over HTTP, and brings no credential of its own. */
export function mayAuthorize({ transport, oauth, headers = {} }: LoadedMcpServer): boolean {
  if (transport !== "http" && transport !== "sse" || oauth === false) return false;
  return Object.keys(headers).every((name) => name.toLowerCase() !== "authorization");
}
