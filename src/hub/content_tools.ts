import type { Agent } from "../config/agent_schema.ts";
import { HubError } from "../core/error.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import { createChooser } from "../core/name_pattern.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import { toResource } from "../mcp/to_tool_result.ts";
import { createMcpResources, type ShownResource } from "../operations/builtin/mcp_resources.ts";
import { toTool } from "../operations/to_tool.ts";
import type { CallersContent, ContentCaller } from "../policy/callers_content.ts";

/** What patterns of tools begin with that name the operations on resources. */
const NAMESPACE = "mcp.";

/**
 * The operations on resources of MCP servers for one agent: only for agents that name them, and as far as the agent's
 * patterns of tools go.
 */
export function createContentTools(
  content: CallersContent,
  { timeoutMs }: { timeoutMs: number },
): (agent: Pick<Agent, "tools">) => readonly Tool[] {
  return ({ tools: patterns }) => {
    if (!wantsResources(patterns)) return [];
    const mayUse = createChooser(patterns);
    const callerOf = ({ principal, signal }: ToolContext): ContentCaller => {
      const { tenantId, keyId } = principal;
      return { tenantId, keyId, signal, mayUse };
    };
    return createMcpResources({
      async list(context, server) {
        const caller = callerOf(context);
        const servers = server === undefined
          ? await content.servers(caller)
          : [await content.find(caller, server)];
        const away: string[] = [];
        const listed = await Promise.all(servers.map(async (connection): Promise<
          ShownResource[]
        > => {
          const { name } = connection;
          try {
            const { resources, templates } = await content.list(caller, connection);
            return [
              ...resources.map(({ uri, ...rest }) => shown(name, uri, rest)),
              ...templates.map(({ uriTemplate, ...rest }) => shown(name, uriTemplate, rest)),
            ];
          } catch (error) {
            if (server !== undefined || context.signal.aborted || !(error instanceof HubError)) {
              throw error;
            }
            away.push(name);
            return [];
          }
        }));
        return { resources: listed.flat(), away };
      },
      async read(context, { server, uri }) {
        const caller = callerOf(context);
        const connection = await content.find(caller, server);
        return (await content.read(caller, connection, uri)).map(toResource);
      },
    }).map((operation) => bySource(toTool(operation, { timeoutMs })));
  };
}

/** Whether an agent's patterns of tools name the operations on resources. */
export function wantsResources(patterns: readonly string[]): boolean {
  return patterns.some((pattern) => pattern.startsWith(NAMESPACE));
}

/** What a server gives is its words alone, as the results of its tools are. */
function bySource(tool: Tool): Tool {
  if (tool.outside === undefined) return tool;
  const { source } = tool.outside;
  const sourceOf = (input: Json) => {
    const server = isJsonObject(input) ? input["server"] : undefined;
    return typeof server === "string" ? `${source}:${server}` : source;
  };
  return { ...tool, outside: { ...tool.outside, sourceOf } };
}

function shown(
  server: string,
  uri: string,
  { name, description, mimeType }: Omit<ShownResource, "server" | "uri">,
): ShownResource {
  return {
    server,
    uri,
    name,
    ...description === undefined ? {} : { description },
    ...mimeType === undefined ? {} : { mimeType },
  };
}
