import { type Clock, doneWithin } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { Log } from "../core/log.ts";
import type { Pins } from "./catalogue.ts";
import type { McpConnection } from "./connection.ts";
import type { ConnectionMaker, KeptPins } from "./connection_maker.ts";
import { HandedConnections } from "./handed_connections.ts";
import { type JoinedTools, joinTools } from "./join_tools.ts";
import type { MappedTools } from "./mapped_tools.ts";
import { mayAuthorize } from "./may_authorize.ts";
import type { McpAuth, TokenOwner } from "./oauth/auth_provider.ts";
import { OwnedConnections } from "./owned_connections.ts";
import type { OwnedBy } from "./waiting_tools.ts";

/** Whoever wants something of servers. */
export interface McpCaller {
  tenantId: string;
  keyId: string;
}

/** What choosing connections needs. */
export interface CallersConnectionsOptions {
  clock: Clock;
  log: Log;
  auth?: McpAuth | undefined;
  ownerPins?: KeptPins | undefined;
  maker: ConnectionMaker;
  mapped: MappedTools;
  /** The connections that are nobody's own, as they are now. */
  shared(): readonly McpConnection[];
  /** Called when what an owner has at some server may be another. */
  onOwned(owner: TokenOwner): void;
}

/** The tools of all servers as one caller has them. */
export interface CallersTools extends JoinedTools {
  /** Ends connections that nobody else has; left out where there are none. Never rejects. */
  release?(): Promise<void>;
}

/** Which connections a caller has: of its own tokens, by a credential that it handed over, or those of all. */
export class CallersConnections {
  readonly #options: CallersConnectionsOptions;
  readonly #owned: OwnedConnections;
  /** Of what goes on. */
  readonly #handed = new Set<HandedConnections>();
  /** Servers at which the shared tokens are known to have been there. */
  readonly #authorized = new Set<string>();

  constructor(options: CallersConnectionsOptions) {
    this.#options = options;
    this.#owned = new OwnedConnections({
      clock: options.clock,
      open: (name, server, start) =>
        options.maker.owned(name, server, {
          ...start,
          onChange: () => options.onOwned(start.owner),
        }),
    });
  }

  /**
   * The connections that a caller's requests go over: of its own tokens where it has such, and none where it may not have
   * those of all. Waits for servers no longer than this.
   */
  async connectionsFor(caller: McpCaller, limitMs: number): Promise<McpConnection[]> {
    const chosen = await Promise.all(
      this.#options.shared().map((connection) => this.#chooseFor(caller, { connection, limitMs })),
    );
    return chosen.filter((connection) => connection !== null);
  }

  /**
   * The tools of a caller who has tokens of its own at some server, handed a credential over, or may not have the tokens of
   * all; null for everybody else. Waits for servers no longer than this.
   */
  async toolsFor(
    caller: McpCaller,
    { limitMs, handed }: { limitMs: number; handed: HandedCredentials | null },
  ): Promise<CallersTools | null> {
    const { auth, clock, maker, mapped, log } = this.#options;
    if (auth === undefined && handed === null) return null;
    const shared = this.#options.shared();
    const own = handed === null ? null : new HandedConnections(handed, {
      shared,
      open: (...args) => maker.handed(...args),
    });
    if (own !== null) this.#handed.add(own);
    const release = async () => {
      if (own !== null && this.#handed.delete(own)) await own.close();
    };
    try {
      const chosen = await Promise.all(shared.map(async (connection) => {
        const { name } = connection;
        const theirs = own?.get(name);
        if (theirs === undefined) return await this.#chooseFor(caller, { connection, limitMs });
        const isKnown = handed?.valueFor(name) !== null;
        if (isKnown) await doneWithin(clock, limitMs, theirs.connect());
        return theirs;
      }));
      if (chosen.every((connection, index) => connection === shared[index])) {
        await release();
        return null;
      }
      const present = chosen.filter((connection) => connection !== null);
      return { ...joinTools(present, { mapped, log }), release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  /** Connections to a server that are one owner's, and whose they are. */
  ownersOf(server: string): OwnedBy[] {
    return this.#owned.ownersOf(server);
  }

  /** All connections that are one owner's, and whose they are. */
  owned(): (OwnedBy & TokenOwner)[] {
    return this.#owned.all();
  }

  /** Looks which owners have nothing authorized any more, here or elsewhere. */
  async checkGrants(): Promise<void> {
    const { auth } = this.#options;
    if (auth === undefined) return;
    const owned = this.#owned.all().filter(({ connection }) => connection.listing !== null)
      .map(({ tenantId, owner, connection: { name } }) => ({ tenantId, owner, server: name }));
    const shared = [...this.#authorized].map((server) => ({ ...auth.shared, server }));
    for (const { server, ...owner } of await auth.gone([...owned, ...shared])) {
      this.forgotten(server, owner);
    }
  }

  /** What an owner had authorized at a server is gone, and with it the list of tools. */
  forgotten(server: string, owner: TokenOwner): void {
    const isShared = this.#isShared(owner);
    if (isShared) this.#authorized.delete(server);
    const own = isShared
      ? this.#options.shared().filter(({ name }) => name === server)
      : this.#owned.named(server, owner);
    for (const connection of own) void connection.forget();
    if (!isShared) this.#options.onOwned(owner);
  }

  /** An owner has authorized the hub at some server. */
  authorized(owner: TokenOwner): void {
    if (!this.#isShared(owner)) this.#options.onOwned(owner);
  }

  /** All connections to a server that are somebody's own, to be ended: whoever asks for them gets others. */
  take(server: string): McpConnection[] {
    this.#authorized.delete(server);
    const handed = [...this.#handed].flatMap((own) => own.get(server) ?? []);
    return [...this.#owned.take(server), ...handed];
  }

  /** Ends all of them. Never rejects. */
  async close(): Promise<void> {
    await Promise.all([this.#owned.close(), ...[...this.#handed].map((own) => own.close())]);
  }

  #isShared({ tenantId, owner }: TokenOwner): boolean {
    const shared = this.#options.auth?.shared;
    return tenantId === shared?.tenantId && owner === shared.owner;
  }

  /** The connection to a server that a caller uses; null for none. */
  async #chooseFor(
    caller: McpCaller,
    { connection, limitMs }: { connection: McpConnection; limitMs: number },
  ): Promise<McpConnection | null> {
    const { auth, clock, log, ownerPins } = this.#options;
    const { name, server } = connection;
    if (auth === undefined || !server.enabled || !mayAuthorize(server)) return connection;
    const { shared } = auth;
    let whose: Awaited<ReturnType<McpAuth["whose"]>>;
    let pins: Pins | null = null;
    try {
      whose = await auth.whose(name, caller);
      if (whose !== null && !this.#isShared(whose) && !this.#owned.has(name, whose)) {
        pins = await ownerPins?.read({ ...whose, name, server }) ?? null;
      }
    } catch (error) {
      // It must not go over a connection of others whose own it may be.
      const facts = { server: name, error: toHubError(error) };
      log.warn("Nobody knows whose connection to an MCP server counts: there is none", facts);
      return null;
    }
    if (!this.#options.shared().includes(connection)) return connection;
    const isShared = (whose?.tenantId ?? caller.tenantId) === shared.tenantId &&
      (whose === null || whose.owner === shared.owner);
    if (!isShared && whose === null) return null;
    if (isShared && whose !== null) this.#authorized.add(name);
    // Another replica has forgotten it.
    else if (isShared && this.#authorized.has(name)) this.forgotten(name, shared);
    const own = isShared || whose === null
      ? connection
      : this.#owned.get(name, server, { owner: whose, pins });
    const { kind } = own.state;
    const isDue = !isShared && kind === "idle" || kind === "needs_auth" && whose?.isReady;
    if (isDue || kind === "connecting") await doneWithin(clock, limitMs, own.connect());
    return own;
  }
}
