/**
 * Credentials that a caller handed over for one run, each for one server. In memory only: nothing of it is shown by logs,
 * JSON or errors.
 */
export class HandedCredentials {
  readonly #values: Map<string, string | null>;
  readonly #listeners = new Set<(server: string) => void>();

  /** `awaited` names servers whose credentials were handed over before and are gone. */
  constructor(given: ReadonlyMap<string, string>, awaited: readonly string[] = []) {
    this.#values = new Map<string, string | null>(awaited.map((server) => [server, null]));
    for (const [server, value] of given) this.#values.set(server, value);
  }

  /** Names of the servers that they are for, sorted. */
  get servers(): string[] {
    return [...this.#values.keys()].sort();
  }

  /** The credential for a server; null when it has to be handed over again. */
  valueFor(server: string): string | null {
    return this.#values.get(server) ?? null;
  }

  /** Takes others in their place. False, and nothing is taken, when one is for another server. */
  take(given: HandedCredentials): boolean {
    if (given.servers.some((server) => !this.#values.has(server))) return false;
    for (const [server, value] of given.#values) {
      if (value === null || this.#values.get(server) === value) continue;
      this.#values.set(server, value);
      for (const listener of [...this.#listeners]) listener(server);
    }
    return true;
  }

  /** Called from now on for each server whose credential has changed; gives what ends that. */
  onTake(listener: (server: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
