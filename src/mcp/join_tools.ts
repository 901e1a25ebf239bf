import type { Log } from "../core/log.ts";
import type { Tool } from "../core/tool.ts";
import type { McpConnection } from "./connection.ts";
import type { MappedTools } from "./mapped_tools.ts";
import { isOffered } from "./to_tool.ts";

/** How a server wants its tools to be used, for agents that have one of them. */
export interface ServerInstructions {
  source: string;
  text: string;
  saidBy: string;
}

/** Tools by name in order, and what their servers say of the use of some of them. */
export interface JoinedTools {
  tools: readonly Tool[];
  instructionsFor(tools: readonly Tool[]): ServerInstructions[];
}

/** The tools that these connections offer; of two with one name the first. */
export function joinTools(
  connections: readonly McpConnection[],
  { mapped, log }: { mapped: MappedTools; log: Log },
): JoinedTools {
  const tools = new Map<string, Tool>();
  const owners = new Map<string, McpConnection>();
  for (const connection of connections) {
    for (const listed of connection.listing?.tools ?? []) {
      if (!isOffered(connection.server, listed.name)) continue;
      const tool = mapped.of(connection, listed);
      const owner = owners.get(tool.name);
      if (owner !== undefined) {
        const facts = { tool: tool.name, servers: [owner.name, connection.name] };
        log.error("Two tools of MCP servers have one name; the later is left out", facts);
        continue;
      }
      tools.set(tool.name, tool);
      owners.set(tool.name, connection);
    }
  }
  return {
    tools: [...tools.values()].sort((a, b) => a.name < b.name ? -1 : 1),
    instructionsFor(some) {
      const among = new Set(some.map(({ name }) => owners.get(name)));
      return [...new Set(owners.values())]
        .filter((connection) => among.has(connection) && connection.instructions !== "")
        .map(({ server: { slug: source }, instructions: text }) => (
          { source, text, saidBy: `the MCP server ${source}` }
        ));
    },
  };
}
