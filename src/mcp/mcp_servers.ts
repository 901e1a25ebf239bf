import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { doneWithin } from "../core/clock.ts";
import type { Tool } from "../core/tool.ts";
import type { Catalogue } from "./catalogue.ts";
import { type ConnectionOptions, McpConnection } from "./connection.ts";
import { openClient } from "./open_client.ts";
import { isOffered, type McpCallFact, type SchemaWork, toTool } from "./to_tool.ts";

/** How a server wants its tools to be used, for agents that have one of them. */
export interface ServerInstructions {
  source: string;
  text: string;
}

/** What the servers of a hub need. */
export interface McpServersOptions
  extends Omit<ConnectionOptions, "open" | "onTools" | "seed" | "keep"> {
  /** What servers listed before this process began, by name. */
  seeds?: ReadonlyMap<string, Catalogue>;
  /** Called with what is to be kept of a server. */
  keep?(name: string, catalogue: Catalogue): void;
  servers: Readonly<Record<string, LoadedMcpServer>>;
  open?: typeof openClient;
  schemas: SchemaWork;
  observe(fact: McpCallFact): void;
}

/** All MCP servers of a hub. One that is away costs the others nothing. */
export class McpServers {
  readonly #options: McpServersOptions;
  readonly #connections: readonly McpConnection[];
  readonly #listeners: (() => void)[] = [];
  #tools: readonly Tool[] = [];
  #owners: ReadonlyMap<string, McpConnection> = new Map();
  #asked: Promise<unknown> | null = null;

  constructor(options: McpServersOptions) {
    this.#options = options;
    const { open = openClient } = options;
    const onTools = () => this.#rebuild();
    this.#connections = Object.entries(options.servers)
      .sort(([a], [b]) => a < b ? -1 : 1)
      .map(([name, server]) => {
        const seed = options.seeds?.get(name);
        return new McpConnection(name, server, {
          ...options,
          open,
          onTools,
          keep: (catalogue) => options.keep?.(name, catalogue),
          ...seed === undefined ? {} : { seed },
        });
      });
    this.#rebuild();
  }

  get connections(): readonly McpConnection[] {
    return this.#connections;
  }

  /** The tools of all servers, sorted by name. */
  get tools(): readonly Tool[] {
    return this.#tools;
  }

  /** What servers say of the use of their tools, for those of which one is among these. */
  instructionsFor(tools: readonly Tool[]): ServerInstructions[] {
    const among = new Set(tools.map(({ name }) => this.#owners.get(name)));
    return this.#connections
      .filter((connection) => among.has(connection) && connection.instructions !== "")
      .map(({ server, instructions }) => ({ source: server.slug, text: instructions }));
  }

  /** Called from now on when the tools have changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Begins to connect to all servers of which nothing is known from before; returns at once. */
  start(): void {
    const unknown = this.#connections.filter(({ listing }) => listing === null);
    this.#asked ??= Promise.all(unknown.map((connection) => connection.connect()));
  }

  /** Waits until each server was reached, or not, for the first time; but no longer than this. */
  async settled(limitMs: number): Promise<void> {
    if (this.#connections.length === 0) return;
    this.start();
    if (this.#asked !== null) await doneWithin(this.#options.clock, limitMs, this.#asked);
  }

  /** Ends all connections, and the servers that were started for them. */
  async close(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
  }

  #rebuild(): void {
    const tools = new Map<string, Tool>();
    const owners = new Map<string, McpConnection>();
    for (const connection of this.#connections) {
      for (const listed of connection.listing?.tools ?? []) {
        if (!isOffered(connection.server, listed.name)) continue;
        const tool = toTool(connection, listed, this.#options);
        const owner = owners.get(tool.name);
        if (owner !== undefined) {
          this.#options.log.error(
            "Two tools of MCP servers would have one name; the later is left out",
            {
              tool: tool.name,
              servers: [owner.name, connection.name],
            },
          );
          continue;
        }
        tools.set(tool.name, tool);
        owners.set(tool.name, connection);
      }
    }
    this.#tools = [...tools.values()].sort((a, b) => a.name < b.name ? -1 : 1);
    this.#owners = owners;
    for (const listener of this.#listeners) listener();
  }
}
