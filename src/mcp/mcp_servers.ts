import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { doneWithin } from "../core/clock.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { Tool } from "../core/tool.ts";
import type { Catalogue } from "./catalogue.ts";
import { McpConnection } from "./connection.ts";
import type { ConnectionOptions } from "./connection_options.ts";
import { joinTools } from "./join_tools.ts";
import { Lifeline } from "./lifeline.ts";
import { HandedConnections } from "./handed_connections.ts";
import type { HandedSource } from "./handed_source.ts";
import { mayAuthorize } from "./may_authorize.ts";
import type { McpAuth, TokenOwner } from "./oauth/auth_provider.ts";
import { GRACE_MS, openClient } from "./open_client.ts";
import { OwnedConnections } from "./owned_connections.ts";
import type { ServerTrace, ServerTraces } from "./server_trace.ts";
import type { McpCallFact, SchemaWork } from "./to_tool.ts";
import type { OwnedBy } from "./waiting_tools.ts";

/** How a server wants its tools to be used, for agents that have one of them. */
export interface ServerInstructions {
  source: string;
  text: string;
}

/** What the servers of a hub need. */
export interface McpServersOptions extends
  Omit<
    ConnectionOptions,
    "open" | "lifeline" | "onTools" | "onContent" | "seed" | "keep" | "tokens" | "handed" | "trace"
  > {
  /** What servers listed before this process began, by name. */
  seeds?: ReadonlyMap<string, Catalogue>;
  /** Called with what is to be kept of a server. */
  keep?(name: string, catalogue: Catalogue): void;
  servers: Readonly<Record<string, LoadedMcpServer>>;
  open?: typeof openClient;
  schemas: SchemaWork;
  /** Where what happens is noted of servers that are traced. */
  traces?: ServerTraces;
  observe(fact: McpCallFact): void;
  /** Tokens for servers that want them; left out where there are none to be had. */
  auth?: McpAuth;
}

/** The tools of all servers as one caller has them. */
export interface CallersTools {
  tools: readonly Tool[];
  instructionsFor(tools: readonly Tool[]): ServerInstructions[];
  /** Ends connections that nobody else has; left out where there are none. Never rejects. */
  release?(): Promise<void>;
}

type Owners = ReadonlyMap<string, McpConnection>;

/** All MCP servers of a hub. One that is away costs the others nothing. */
export class McpServers {
  readonly #options: McpServersOptions;
  readonly #connections: readonly McpConnection[];
  readonly #listeners: (() => void)[] = [];
  readonly #contentListeners: (() => void)[] = [];
  #tools: readonly Tool[] = [];
  #owners: Owners = new Map();
  readonly #owned: OwnedConnections;
  readonly #lifeline: Lifeline;
  readonly #openHanded: (shared: McpConnection, handed: HandedSource) => McpConnection;
  /** Of runs that go on. */
  readonly #handed = new Set<HandedConnections>();
  #asked: Promise<unknown> | null = null;
  /** Servers at which the shared tokens are known to have been there. */
  readonly #authorized = new Set<string>();

  constructor(options: McpServersOptions) {
    this.#options = options;
    const { open = openClient, auth } = options;
    this.#lifeline = new Lifeline({ graceMs: GRACE_MS, path: options.env("PATH") });
    const { clock, random, log, env, addSecret } = options;
    const common = { clock, random, log, env, addSecret, open, lifeline: this.#lifeline };
    const untold = { onTools() {}, onContent() {} };
    const connect = (name: string, server: LoadedMcpServer, owner?: TokenOwner) => {
      const trace = options.traces?.of(name);
      const mayHaveTokens = auth !== undefined && mayAuthorize(server);
      const tokens = mayHaveTokens ? auth.sourceOf(name, owner ?? auth.shared) : undefined;
      // What an owner's tools are is told to nobody else: such a connection neither begins with what is kept nor keeps.
      if (owner !== undefined) {
        return new McpConnection(name, server, { ...common, ...untold, trace, tokens });
      }
      const seed = options.seeds?.get(name);
      return new McpConnection(name, server, {
        ...common,
        trace,
        tokens,
        onTools: () => this.#rebuild(),
        onContent: () => {
          for (const listener of this.#contentListeners) listener();
        },
        keep: (catalogue) => options.keep?.(name, catalogue),
        ...seed === undefined ? {} : { seed },
      });
    };
    const openHanded = (shared: McpConnection, handed: HandedSource) => {
      const { name, server, catalogue: seed } = shared;
      const trace = options.traces?.of(name);
      return new McpConnection(name, server, { ...common, ...untold, trace, seed, handed });
    };
    this.#openHanded = openHanded;
    this.#connections = Object.entries(options.servers)
      .sort(([a], [b]) => a < b ? -1 : 1)
      .map(([name, server]) => connect(name, server));
    this.#owned = new OwnedConnections({ clock: options.clock, open: connect });
    this.#rebuild();
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
    return this.#tools;
  }

  /** What servers say of the use of their tools, for those of which one is among these. */
  instructionsFor(tools: readonly Tool[]): ServerInstructions[] {
    return this.#instructionsFor(tools, this.#owners);
  }

  /**
   * The connections that a caller's requests go over: of its own tokens where it has such, and none where it may not have
   * those of all. Waits for servers no longer than this.
   */
  async connectionsFor(
    caller: { tenantId: string; keyId: string },
    limitMs: number,
  ): Promise<McpConnection[]> {
    const chosen = await Promise.all(
      this.#connections.map((connection) => this.#chooseFor(caller, { connection, limitMs })),
    );
    return chosen.filter((connection) => connection !== null);
  }

  /**
   * The tools of a caller who has tokens of its own at some server, handed a credential over, or may not have the tokens of
   * all; null for everybody else. Waits for servers no longer than this.
   */
  async toolsFor(
    caller: { tenantId: string; keyId: string },
    limitMs: number,
    handed: HandedCredentials | null = null,
  ): Promise<CallersTools | null> {
    if (this.#options.auth === undefined && handed === null) return null;
    return await this.#choose(
      { handed, limitMs },
      (connection) => this.#chooseFor(caller, { connection, limitMs }),
    );
  }

  /** The tools of all, with those of a caller who handed credentials over in their places. */
  async handedTools(handed: HandedCredentials, limitMs: number): Promise<CallersTools | null> {
    return await this.#choose({ handed, limitMs }, (connection) => Promise.resolve(connection));
  }

  async #choose(
    { handed, limitMs }: { handed: HandedCredentials | null; limitMs: number },
    choose: (connection: McpConnection) => Promise<McpConnection | null>,
  ): Promise<CallersTools | null> {
    const own = handed === null
      ? null
      : new HandedConnections(handed, { shared: this.#connections, open: this.#openHanded });
    if (own !== null) this.#handed.add(own);
    const release = async () => {
      if (own !== null && this.#handed.delete(own)) await own.close();
    };
    try {
      const chosen = await Promise.all(this.#connections.map(async (connection) => {
        const { name } = connection;
        const theirs = own?.get(name);
        if (theirs === undefined) return await choose(connection);
        const isKnown = handed?.valueFor(name) !== null;
        if (isKnown) await doneWithin(this.#options.clock, limitMs, theirs.connect());
        return theirs;
      }));
      if (chosen.every((connection, index) => connection === this.#connections[index])) {
        await release();
        return null;
      }
      const present = chosen.filter((connection) => connection !== null);
      const { tools, owners } = joinTools(present, this.#options);
      return { tools, instructionsFor: (some) => this.#instructionsFor(some, owners), release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** All connections to a server that are not of one run alone. */
  ownersOf(server: string): OwnedBy[] {
    const shared = this.#named(server).map((connection) => ({ owner: null, connection }));
    return [...shared, ...this.#owned.ownersOf(server)];
  }

  /** What an owner had authorized at a server is gone, and with it the list of tools. */
  forgotten(server: string, owner: TokenOwner): void {
    const shared = this.#options.auth?.shared;
    const isShared = owner.tenantId === shared?.tenantId && owner.owner === shared.owner;
    if (isShared) this.#authorized.delete(server);
    const own = isShared ? this.#named(server) : this.#owned.named(server, owner);
    for (const connection of own) void connection.forget();
  }

  /** Somebody has authorized the hub at a server: what waited for it is tried at once. */
  authorized(server: string): void {
    for (const connection of this.#named(server)) {
      if (connection.state.kind === "needs_auth") void connection.connect();
    }
  }

  /** Called from now on when the tools have changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Called from now on when resources or prompts have changed. */
  onContent(listener: () => void): void {
    this.#contentListeners.push(listener);
  }

  /** Begins to connect to all servers of which nothing is known from before; returns at once. */
  start(): void {
    const unknown = this.#connections.filter(({ listing, content }) =>
      listing === null || content.listing === null
    );
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
    await Promise.all([
      this.#owned.close(),
      ...[...this.#handed].map((own) => own.close()),
      ...this.#connections.map((connection) => connection.close()),
    ]);
    await this.#lifeline.close();
  }

  /** The connection to a server that a caller uses; null for none. */
  async #chooseFor(
    caller: { tenantId: string; keyId: string },
    { connection, limitMs }: { connection: McpConnection; limitMs: number },
  ): Promise<McpConnection | null> {
    const { auth, clock } = this.#options;
    const { name, server } = connection;
    if (auth === undefined || !server.enabled || !mayAuthorize(server)) return connection;
    const { shared } = auth;
    const whose = await auth.whose(name, caller);
    const isShared = (whose?.tenantId ?? caller.tenantId) === shared.tenantId &&
      (whose === null || whose.owner === shared.owner);
    if (!isShared && whose === null) return null;
    if (isShared && whose !== null) this.#authorized.add(name);
    // Another replica has forgotten it.
    else if (isShared && this.#authorized.has(name)) this.forgotten(name, shared);
    const own = isShared || whose === null ? connection : this.#owned.get(name, server, whose);
    const { kind } = own.state;
    const isDue = !isShared && kind === "idle" || kind === "needs_auth" && whose?.isReady;
    if (isDue || kind === "connecting") await doneWithin(clock, limitMs, own.connect());
    return own;
  }

  #named(server: string): McpConnection[] {
    return this.#connections.filter(({ name }) => name === server);
  }

  #instructionsFor(tools: readonly Tool[], owners: Owners): ServerInstructions[] {
    const among = new Set(tools.map(({ name }) => owners.get(name)));
    return [...new Set(owners.values())]
      .filter((connection) => among.has(connection) && connection.instructions !== "")
      .map(({ server, instructions }) => ({ source: server.slug, text: instructions }));
  }

  #rebuild(): void {
    const { tools, owners } = joinTools(this.#connections, this.#options);
    this.#tools = tools;
    this.#owners = owners;
    for (const listener of this.#listeners) listener();
  }
}
