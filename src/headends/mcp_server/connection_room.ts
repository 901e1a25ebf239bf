import { HubError } from "../../core/error.ts";

/** A connection that stays until either side ends it. */
export interface StayingConnection {
  /** Ends it, since the hub stops, or since its key holds no more. */
  close(why?: "stopping" | "revoked"): unknown;
}

/** Connections that one key may have open at a replica. */
const MAX_PER_KEY = 100;

/** All connections that stay, bounded for each key. */
export class ConnectionRoom {
  readonly #open = new Map<StayingConnection, string>();
  readonly #maxPerKey: number;
  readonly #stopped: AbortSignal;

  constructor({ stopped, maxPerKey = MAX_PER_KEY }: { stopped: AbortSignal; maxPerKey?: number }) {
    this.#maxPerKey = maxPerKey;
    this.#stopped = stopped;
    stopped.addEventListener("abort", () => this.#closeAll(), { once: true });
  }

  /** How many there are. */
  get size(): number {
    return this.#open.size;
  }

  /** Throws `rate_limit_exceeded` when the key has too many, `shutting_down` when there is no time left for one. */
  assertFor(keyId: string): void {
    if (this.#stopped.aborted) throw new HubError("shutting_down", "The hub is stopping");
    let own = 0;
    for (const owner of this.#open.values()) if (owner === keyId) own++;
    if (own < this.#maxPerKey) return;
    throw new HubError(
      "rate_limit_exceeded",
      `The API key has ${this.#maxPerKey} MCP connections open, as many as it may have`,
      { retryAfterMs: 1000 },
    );
  }

  /** Counts one. */
  enter(connection: StayingConnection, keyId: string): void {
    this.#open.set(connection, keyId);
  }

  /** Counts one no more. */
  leave(connection: StayingConnection): void {
    this.#open.delete(connection);
  }

  /** These keys hold no more. */
  closeFor(keyIds: ReadonlySet<string>): void {
    for (const [connection, keyId] of [...this.#open]) {
      if (keyIds.has(keyId)) connection.close("revoked");
    }
  }

  #closeAll(): void {
    for (const connection of [...this.#open.keys()]) connection.close();
  }
}
