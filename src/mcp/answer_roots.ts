import { pathToFileURL } from "node:url";
import type { Client } from "@modelcontextprotocol/client";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Json } from "../core/json.ts";

/** Tells a server the places that it was configured with, when it asks; gives what it is told, null for nothing. Throws where a text of them cannot be resolved. */
export function answerRoots(
  client: Client,
  { roots = [] }: LoadedMcpServer,
  resolve: (text: string) => string,
): Json | null {
  if (roots.length === 0) return null;
  const listed = roots.map((root) => {
    const { uri, name } = typeof root === "string" ? { uri: root, name: undefined } : root;
    const text = resolve(uri);
    const { href } = text.startsWith("/") ? pathToFileURL(text) : new URL(text);
    return { uri: href, ...name === undefined ? {} : { name } };
  });
  client.setRequestHandler("roots/list", () => ({ roots: listed }));
  return { roots: listed };
}
