import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import type { Clock, Timer } from "../core/clock.ts";
import type { Pins } from "./catalogue.ts";
import type { McpConnection } from "./connection.ts";
import type { TokenOwner } from "./oauth/auth_provider.ts";
import type { OwnedBy } from "./waiting_tools.ts";

/** What connections of owners are made of. */
export interface OwnedOptions {
  clock: Clock;
  open(name: string, server: LoadedMcpServer, owned: OwnedStart): McpConnection;
}

/** Whose a connection is, and which definitions count from before; null for none. */
export interface OwnedStart {
  owner: TokenOwner;
  pins: Pins | null;
}

interface Owned {
  owner: TokenOwner;
  connection: McpConnection;
  timer: Timer;
}

/** A connection that nobody has asked for this long is ended until somebody does. */
const IDLE_MS = 15 * 60_000;

/** Connections of those who have tokens of their own: nobody's tools or sessions are another's. */
export class OwnedConnections {
  readonly #options: OwnedOptions;
  readonly #owned = new Map<string, Owned>();

  constructor(options: OwnedOptions) {
    this.#options = options;
  }

  /** The connection of an owner to a server, to be opened when it is used. */
  get(name: string, server: LoadedMcpServer, { owner, pins }: OwnedStart): McpConnection {
    const { clock } = this.#options;
    const key = keyOf(name, owner);
    const owned = this.#owned.get(key) ??
      { owner, connection: this.#options.open(name, server, { owner, pins }), timer: null };
    this.#owned.set(key, owned);
    clock.clearTimer(owned.timer);
    owned.timer = clock.setTimer(() => this.#rest(owned), IDLE_MS);
    return owned.connection;
  }

  has(name: string, owner: TokenOwner): boolean {
    return this.#owned.has(keyOf(name, owner));
  }

  /** Those that there are to a server: of one owner, or of all. */
  named(name: string, owner?: TokenOwner): McpConnection[] {
    const wanted = owner === undefined ? null : keyOf(name, owner);
    return [...this.#owned].filter(([key, { connection }]) =>
      connection.name === name && (wanted === null || key === wanted)
    ).map(([, { connection }]) => connection);
  }

  /** Those that there are to a server, and whose they are. */
  ownersOf(name: string): OwnedBy[] {
    return this.all().filter(({ connection }) => connection.name === name);
  }

  /** All of them, and whose they are. */
  all(): (OwnedBy & TokenOwner)[] {
    return [...this.#owned.values()].map(({ owner: { tenantId, owner }, connection }) => ({
      tenantId,
      owner,
      connection,
    }));
  }

  /** Those that there are to a server, to be ended: whoever asks for them gets others. */
  take(name: string): McpConnection[] {
    const taken = [...this.#owned].filter(([, { connection }]) => connection.name === name);
    for (const [key, { timer }] of taken) {
      this.#options.clock.clearTimer(timer);
      this.#owned.delete(key);
    }
    return taken.map(([, { connection }]) => connection);
  }

  /** Ends all of them. Never rejects. */
  async close(): Promise<void> {
    const all = [...this.#owned.values()];
    this.#owned.clear();
    for (const { timer } of all) this.#options.clock.clearTimer(timer);
    await Promise.all(all.map(({ connection }) => connection.close()));
  }

  /** Runs may still hold it, and open it again with their next call. */
  #rest(owned: Owned): void {
    owned.timer = null;
    if (owned.connection.rest()) return;
    owned.timer = this.#options.clock.setTimer(() => this.#rest(owned), IDLE_MS);
  }
}

function keyOf(name: string, { tenantId, owner }: TokenOwner): string {
  return JSON.stringify([name, tenantId, owner]);
}
