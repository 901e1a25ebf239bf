import type { Log } from "../core/log.ts";
import type { Tool } from "../core/tool.ts";
import type { McpConnection } from "./connection.ts";
import { isOffered, type McpCallFact, type SchemaWork, toTool } from "./to_tool.ts";

/** Tools by name in order, and the connections that they come by. */
export interface JoinedTools {
  tools: Tool[];
  owners: ReadonlyMap<string, McpConnection>;
}

/** The tools that these connections offer; of two with one name the first. */
export function joinTools(
  connections: readonly McpConnection[],
  options: { log: Log; schemas: SchemaWork; observe(fact: McpCallFact): void },
): JoinedTools {
  const tools = new Map<string, Tool>();
  const owners = new Map<string, McpConnection>();
  for (const connection of connections) {
    for (const listed of connection.listing?.tools ?? []) {
      if (!isOffered(connection.server, listed.name)) continue;
      const tool = toTool(connection, listed, options);
      const owner = owners.get(tool.name);
      if (owner !== undefined) {
        const facts = { tool: tool.name, servers: [owner.name, connection.name] };
        options.log.error("Two tools of MCP servers have one name; the later is left out", facts);
        continue;
      }
      tools.set(tool.name, tool);
      owners.set(tool.name, connection);
    }
  }
  return { tools: [...tools.values()].sort((a, b) => a.name < b.name ? -1 : 1), owners };
}
