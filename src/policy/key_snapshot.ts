import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { Database } from "../store/database.ts";
import { listKeys } from "../store/keys.ts";
import type { KeySnapshot } from "./authenticate.ts";

/** Keeps all keys in memory, so that no request waits for the database; looks again every few seconds. */
export class KeySnapshots {
  readonly #options: { db: Database; clock: Clock; log: Log; refreshMs: number };
  #current: KeySnapshot | null = null;
  #seen = "";
  #asked = 0;
  #answered = 0;
  #timer: Timer | null = null;
  #hints = 0;
  #closed = false;

  constructor(options: { db: Database; clock: Clock; log: Log; refreshMs: number }) {
    this.#options = options;
  }

  /** The newest snapshot; null before the first `refresh`. */
  get current(): KeySnapshot | null {
    return this.#current;
  }

  /** Reads all keys now; the snapshot changes only when a key did. Throws when Postgres is away. */
  async refresh(): Promise<void> {
    const turn = ++this.#asked;
    const keys = await listKeys(this.#options.db);
    // An answer that was overtaken must not bring a revoked key back.
    if (turn < this.#answered) return;
    this.#answered = turn;
    const seen = keys.map((key) => JSON.stringify({ ...key, hash: [...key.hash] })).sort().join();
    if (this.#current !== null && seen === this.#seen) return;
    this.#seen = seen;
    this.#current = { byLookupId: new Map(keys.map((key) => [key.lookupId, key])) };
  }

  /** Refreshes from now on, until `close`. */
  start(): void {
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(() => {
      void this.#tryRefresh().finally(() => this.start());
    }, this.#options.refreshMs);
  }

  /** A key may have changed: looks now, and once more when told so meanwhile. Never throws. */
  async check(): Promise<void> {
    if (this.#closed || ++this.#hints > 1) return;
    while (this.#hints > 0 && !this.#closed) {
      this.#hints = 1;
      await this.#tryRefresh();
      this.#hints--;
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
  }

  async #tryRefresh(): Promise<void> {
    try {
      await this.refresh();
    } catch (error) {
      this.#options.log.warn("API keys were not refreshed", { error: toHubError(error) });
    }
  }
}
