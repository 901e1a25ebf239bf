import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { McpServer } from "../mcp_schema.ts";
import { namedMembers, toSchemaNode } from "../schema_node.ts";
import { adoptServer } from "./adopt_server.ts";

const OWN = namedMembers(toSchemaNode(McpServer)).map(([name]) => name);

/** The settings with the entries of `mcpServers` in the hub's own words, and a note for each member that was left out. */
export function adoptMcpServers(settings: JsonObject): { settings: JsonObject; notes: string[] } {
  const { mcpServers } = settings;
  if (!isJsonObject(mcpServers)) return { settings, notes: [] };
  const notes: string[] = [];
  const servers = Object.entries(mcpServers).map(([name, given]) => {
    if (!isJsonObject(given)) return [name, given] as const;
    const adopted = adoptServer(given, OWN);
    notes.push(...adopted.notes.map((said) => `mcpServers.${name}: ${said}`));
    return [name, adopted.server] as const;
  });
  return { settings: { ...settings, mcpServers: Object.fromEntries(servers) }, notes };
}
