import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { McpConnection } from "./connection.ts";
import { HandedSource } from "./handed_source.ts";

/** The connections of one run to servers that its caller handed credentials over for: nobody else's, and closed with it. */
export class HandedConnections {
  readonly #connections = new Map<string, McpConnection>();
  readonly #forget: () => void;

  constructor(
    handed: HandedCredentials,
    { shared, open }: {
      shared: readonly McpConnection[];
      open(shared: McpConnection, source: HandedSource): McpConnection;
    },
  ) {
    for (const connection of shared) {
      const { name, server } = connection;
      if (!server.enabled || !handed.servers.includes(name)) continue;
      const source = new HandedSource(handed, name, server);
      this.#connections.set(name, open(connection, source));
    }
    this.#forget = handed.onTake((server) => this.#connections.get(server)?.renew());
  }

  get(name: string): McpConnection | undefined {
    return this.#connections.get(name);
  }

  /** Ends all of them. Never rejects. */
  async close(): Promise<void> {
    this.#forget();
    await Promise.all([...this.#connections.values()].map((connection) => connection.close()));
  }
}
