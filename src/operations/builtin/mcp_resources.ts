import type { ToolContent, ToolContext } from "../../core/tool.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";

/** A resource of an MCP server, or a template of such, as a model reads it. */
export interface ShownResource {
  server: string;
  /** A template's has parts in braces that are to be filled in. */
  uri: string;
  name: string;
  description?: string;
  mimeType?: string;
}

/** Where resources of MCP servers come from, as far as the agent goes. */
export interface ResourceSource {
  /** Those of one server, or of all; `away` names servers that cannot be asked now. */
  list(
    context: ToolContext,
    server: string | undefined,
  ): Promise<{ resources: ShownResource[]; away: string[] }>;
  /** Throws `not_found` for what there is not, and for what the agent may not read. */
  read(context: ToolContext, resource: { server: string; uri: string }): Promise<ToolContent[]>;
}

const PAGE = 100;
const SERVER = { minLength: 1, maxLength: 64 };

/** `mcp.list_resources` and `mcp.read_resource`: what connected servers have to be read. */
export function createMcpResources(source: ResourceSource): Operation[] {
  const list = defineOperation({
    namespace: "mcp",
    name: "list_resources",
    description:
      "Lists what can be read with read_resource: resources of connected MCP servers, by server and URI. " +
      "A URI with parts in braces is a template; fill them in.",
    input: Type.Object({
      server: Type.Optional(
        Type.String({ ...SERVER, description: "Only this server; all when left out" }),
      ),
      offset: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 1_000_000, description: "How many to skip" }),
      ),
    }),
    effect: "pure",
    outside: "reads",
    inRunsOnly: true,
    async run({ server, offset = 0 }, context) {
      const { resources, away } = await source.list(context, server);
      const next = offset + PAGE;
      return {
        resources: resources.slice(offset, next),
        ...next < resources.length ? { nextOffset: next } : {},
        ...away.length === 0 ? {} : { notAvailable: away },
      };
    },
  });
  const read = defineOperation({
    namespace: "mcp",
    name: "read_resource",
    description: "Reads a resource of a connected MCP server, as list_resources names it.",
    input: Type.Object({
      server: Type.String({ ...SERVER, description: "The server that has it" }),
      uri: Type.String({ minLength: 1, maxLength: 2048, description: "Its URI" }),
    }),
    effect: "pure",
    // The server reads the address, which the model writes.
    outside: "sends",
    inRunsOnly: true,
    run: (resource, context) => source.read(context, resource),
  });
  return [list, read];
}
