import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { doneWithin } from "../core/clock.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { Tool } from "../core/tool.ts";
import { type Catalogue, configHash } from "./catalogue.ts";
import type { McpConnection } from "./connection.ts";
import { ConnectionMaker, type ConnectionMakerOptions } from "./connection_maker.ts";
import { HandedConnections } from "./handed_connections.ts";
import { type JoinedTools, joinTools, type ServerInstructions } from "./join_tools.ts";
import { mayAuthorize } from "./may_authorize.ts";
import type { TokenOwner } from "./oauth/auth_provider.ts";
import { OwnedConnections } from "./owned_connections.ts";
import { Retiring } from "./retiring.ts";
import type { ServerTrace } from "./server_trace.ts";
import type { McpCallFact, SchemaWork } from "./to_tool.ts";
import type { OwnedBy } from "./waiting_tools.ts";

/** What the servers of a hub need. */
export interface McpServersOptions extends ConnectionMakerOptions {
  /** What servers listed before this process began, by name. */
  seeds?: ReadonlyMap<string, Catalogue>;
  servers: Readonly<Record<string, LoadedMcpServer>>;
  schemas: SchemaWork;
  observe(fact: McpCallFact): void;
}

/** The tools of all servers as one caller has them. */
export interface CallersTools extends JoinedTools {
  /** Ends connections that nobody else has; left out where there are none. Never rejects. */
  release?(): Promise<void>;
}

/** All MCP servers of a hub. One that is away costs the others nothing. */
export class McpServers {
  readonly #options: McpServersOptions;
  readonly #maker: ConnectionMaker;
  #connections: readonly McpConnection[];
  readonly #listeners: (() => void)[] = [];
  readonly #contentListeners: (() => void)[] = [];
  #joined: JoinedTools;
  readonly #owned: OwnedConnections;
  /** Of runs that go on. */
  readonly #handed = new Set<HandedConnections>();
  #asked: Promise<unknown> | null = null;
  /** Of servers that are not configured so any more. */
  readonly #retiring = new Retiring();
  /** Servers at which the shared tokens are known to have been there. */
  readonly #authorized = new Set<string>();

  constructor(options: McpServersOptions) {
    this.#options = options;
    this.#maker = new ConnectionMaker(options);
    this.#connections = Object.entries(options.servers)
      .map(([name, server]) => this.#open(name, server, options.seeds?.get(name)))
      .sort(byName);
    this.#owned = new OwnedConnections({
      clock: options.clock,
      open: (...args) => this.#maker.owned(...args),
    });
    this.#joined = joinTools(this.#connections, options);
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
    const shared = this.#connections;
    const own = handed === null ? null : new HandedConnections(handed, {
      shared,
      open: (...args) => this.#maker.handed(...args),
    });
    if (own !== null) this.#handed.add(own);
    const release = async () => {
      if (own !== null && this.#handed.delete(own)) await own.close();
    };
    try {
      const chosen = await Promise.all(shared.map(async (connection) => {
        const { name } = connection;
        const theirs = own?.get(name);
        if (theirs === undefined) return await choose(connection);
        const isKnown = handed?.valueFor(name) !== null;
        if (isKnown) await doneWithin(this.#options.clock, limitMs, theirs.connect());
        return theirs;
      }));
      if (chosen.every((connection, index) => connection === shared[index])) {
        await release();
        return null;
      }
      const present = chosen.filter((connection) => connection !== null);
      return { ...joinTools(present, this.#options), release };
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
      this.#owned.close(),
      ...[...this.#handed].map((own) => own.close()),
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
    this.#authorized.delete(name);
    const handed = [...this.#handed].flatMap((own) => own.get(name) ?? []);
    this.#retiring.add([connection, ...this.#owned.take(name), ...handed], reason);
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
    if (!this.#connections.includes(connection)) return connection;
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

  #rebuild(): void {
    this.#joined = joinTools(this.#connections, this.#options);
    for (const listener of this.#listeners) listener();
  }
}

function byName(a: McpConnection, b: McpConnection): number {
  return a.name < b.name ? -1 : 1;
}

function isSame(a: LoadedMcpServer, b: LoadedMcpServer): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
