import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { doneWithin } from "../core/clock.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { Tool } from "../core/tool.ts";
import { CallersConnections, type CallersTools, type McpCaller } from "./callers_connections.ts";
import { type Catalogue, configHash } from "./catalogue.ts";
import type { McpConnection } from "./connection.ts";
import { ConnectionMaker, type ConnectionMakerOptions } from "./connection_maker.ts";
import { type JoinedTools, joinTools, type ServerInstructions } from "./join_tools.ts";
import { MappedTools } from "./mapped_tools.ts";
import type { TokenOwner } from "./oauth/auth_provider.ts";
import { Retiring } from "./retiring.ts";
import type { ServerTrace } from "./server_trace.ts";
import type { MappingOptions } from "./to_tool.ts";
import type { OwnedBy } from "./waiting_tools.ts";

/** What the servers of a hub need. */
export interface McpServersOptions extends ConnectionMakerOptions, MappingOptions {
  /** What servers listed before this process began, by name. */
  seeds?: ReadonlyMap<string, Catalogue>;
  servers: Readonly<Record<string, LoadedMcpServer>>;
}

/** All MCP servers of a hub. One that is away costs the others nothing. */
export class McpServers {
  readonly #options: McpServersOptions;
  readonly #maker: ConnectionMaker;
  #connections: readonly McpConnection[];
  readonly #listeners: (() => void)[] = [];
  readonly #contentListeners: (() => void)[] = [];
  readonly #ownedListeners: ((owner: TokenOwner) => void)[] = [];
  #joined: JoinedTools;
  readonly #mapped: MappedTools;
  readonly #callers: CallersConnections;
  #asked: Promise<unknown> | null = null;
  /** Of servers that are not configured so any more. */
  readonly #retiring = new Retiring();

  constructor(options: McpServersOptions) {
    this.#options = options;
    this.#maker = new ConnectionMaker(options);
    this.#connections = Object.entries(options.servers)
      .map(([name, server]) => this.#open(name, server, options.seeds?.get(name)))
      .sort(byName);
    this.#mapped = new MappedTools(options);
    this.#callers = new CallersConnections({
      ...options,
      maker: this.#maker,
      mapped: this.#mapped,
      shared: () => this.#connections,
      onOwned: (owner) => {
        for (const listener of this.#ownedListeners) listener(owner);
      },
    });
    this.#joined = this.#join();
  }

  /**
   * Takes over other servers. A connection stays where nothing was changed of its server; else calls under way end, and
   * later ones fail with what was changed. Where a server is reached as before, its list stays until it has another one.
   */
  use({ servers, seeds }: Pick<McpServersOptions, "servers" | "seeds">): void {
    this.#options.traces?.use(servers);
    const before = new Map(this.#connections.map((connection) => [connection.name, connection]));
    const next = Object.entries(servers).map(([name, server]) => {
      const old = before.get(name);
      if (old === undefined) return this.#open(name, server, seeds?.get(name));
      if (isSame(old.server, server)) return old;
      const isThere = configHash(old.server) === configHash(server);
      return this.#open(name, server, isThere ? old.catalogue : seeds?.get(name));
    }).sort(byName);
    const gone = this.#connections.filter((connection) => !next.includes(connection));
    const fresh = next.filter((connection) => !this.#connections.includes(connection));
    if (gone.length === 0 && fresh.length === 0) return;
    this.#connections = next;
    for (const one of gone) this.#retire(one, Object.hasOwn(servers, one.name));
    if (this.#asked !== null) this.#ask(fresh);
    this.#rebuild();
    for (const listener of this.#contentListeners) listener();
  }

  /** What was noted of a server; undefined for one that is not traced. */
  traceOf(name: string): ServerTrace | undefined {
    return this.#options.traces?.of(name);
  }

  get connections(): readonly McpConnection[] {
    return this.#connections;
  }

  /** The tools of all servers, sorted by name. */
  get tools(): readonly Tool[] {
    return this.#joined.tools;
  }

  /** What servers say of the use of their tools, for those of which one is among these. */
  instructionsFor(tools: readonly Tool[]): ServerInstructions[] {
    return this.#joined.instructionsFor(tools);
  }

  /** The connections that a caller's requests go over. Waits for servers no longer than this. */
  connectionsFor(caller: McpCaller, limitMs: number): Promise<McpConnection[]> {
    return this.#callers.connectionsFor(caller, limitMs);
  }

  /** The tools of a caller for whom they are others than for all; null for everybody else. Waits for servers no longer than this. */
  toolsFor(
    caller: McpCaller,
    limitMs: number,
    handed: HandedCredentials | null = null,
  ): Promise<CallersTools | null> {
    return this.#callers.toolsFor(caller, { limitMs, handed });
  }

  /** All connections to a server that are not of one run alone. */
  ownersOf(server: string): OwnedBy[] {
    const shared = this.#named(server).map((connection) => ({
      owner: null,
      tenantId: null,
      connection,
    }));
    return [...shared, ...this.#callers.ownersOf(server)];
  }

  /** All connections that are one owner's, and whose they are. */
  owned(): (OwnedBy & TokenOwner)[] {
    return this.#callers.owned();
  }

  /** Looks which owners have nothing authorized any more, here or elsewhere. */
  checkGrants(): Promise<void> {
    return this.#callers.checkGrants();
  }

  /** What an owner had authorized at a server is gone, and with it the list of tools. */
  forgotten(server: string, owner: TokenOwner): void {
    this.#callers.forgotten(server, owner);
  }

  /** Somebody has authorized the hub at a server: what waited for it is tried at once. */
  authorized(server: string, owner: TokenOwner): void {
    this.#callers.authorized(owner);
    for (const connection of this.#named(server)) {
      if (connection.state.kind === "needs_auth") void connection.connect();
    }
  }

  /** Called from now on when the tools have changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Called from now on when what an owner of tokens has at some server may be another. */
  onOwned(listener: (owner: TokenOwner) => void): void {
    this.#ownedListeners.push(listener);
  }

  /** Called from now on when resources or prompts have changed. */
  onContent(listener: () => void): void {
    this.#contentListeners.push(listener);
  }

  /** Begins to connect to all servers of which nothing is known from before; returns at once. */
  start(): void {
    if (this.#asked === null) this.#ask(this.#connections);
  }

  /** Waits until each server was reached, or not, for the first time; but no longer than this. */
  async settled(limitMs: number): Promise<void> {
    if (this.#connections.length === 0) return;
    this.start();
    if (this.#asked !== null) await doneWithin(this.#options.clock, limitMs, this.#asked);
  }

  /** Ends all connections, and the servers that were started for them. */
  async close(): Promise<void> {
    await Promise.all([
      this.#callers.close(),
      ...this.#connections.map((connection) => connection.close()),
      this.#retiring.close(),
    ]);
    await this.#maker.close();
  }

  #open(name: string, server: LoadedMcpServer, seed: Catalogue | undefined): McpConnection {
    return this.#maker.shared(name, server, {
      seed,
      onTools: () => this.#rebuild(),
      onContent: () => {
        for (const listener of this.#contentListeners) listener();
      },
    });
  }

  #ask(connections: readonly McpConnection[]): void {
    const unknown = connections.filter(({ listing, content }) =>
      listing === null || content.listing === null
    );
    const before = this.#asked;
    this.#asked = Promise.all([before, ...unknown.map((connection) => connection.connect())]);
  }

  /** Ends all connections to a server as it was configured. */
  #retire(connection: McpConnection, isThere: boolean): void {
    const { name } = connection;
    const reason = isThere
      ? "its configuration has changed since the run began; the next message takes the new one"
      : "it is not configured any more";
    this.#retiring.add([connection, ...this.#callers.take(name)], reason);
  }

  #join(): JoinedTools {
    return joinTools(this.#connections, { mapped: this.#mapped, log: this.#options.log });
  }

  #named(server: string): McpConnection[] {
    return this.#connections.filter(({ name }) => name === server);
  }

  #rebuild(): void {
    this.#joined = this.#join();
    for (const listener of this.#listeners) listener();
  }
}

function byName(a: McpConnection, b: McpConnection): number {
  return a.name < b.name ? -1 : 1;
}

function isSame(a: LoadedMcpServer, b: LoadedMcpServer): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
