import type { McpConnection } from "./connection.ts";

/** Connections that take no more calls: those under way may end. */
export class Retiring {
  readonly #ending = new Map<McpConnection, Promise<void>>();

  add(connections: readonly McpConnection[], reason: string): void {
    for (const connection of connections) {
      const ended = connection.retire(reason).finally(() => this.#ending.delete(connection));
      this.#ending.set(connection, ended);
    }
  }

  /** Ends them at once. Never rejects. */
  async close(): Promise<void> {
    const ending = [...this.#ending];
    await Promise.all(ending.map(([connection]) => connection.close()));
    await Promise.all(ending.map(([, ended]) => ended));
  }
}
