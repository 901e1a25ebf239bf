import type { Tool } from "../core/tool.ts";
import type { McpConnection } from "./connection.ts";
import type { McpTool } from "./read_tools.ts";
import { type MappingOptions, toTool } from "./to_tool.ts";

/** Tools of servers as the loop takes them, each mapped once for each connection. */
export class MappedTools {
  readonly #options: MappingOptions;
  readonly #tools = new WeakMap<McpConnection, WeakMap<McpTool, Tool>>();

  constructor(options: MappingOptions) {
    this.#options = options;
  }

  of(connection: McpConnection, listed: McpTool): Tool {
    const own = this.#tools.get(connection) ?? new WeakMap<McpTool, Tool>();
    this.#tools.set(connection, own);
    const tool = own.get(listed) ?? toTool(connection, listed, this.#options);
    own.set(listed, tool);
    return tool;
  }
}
