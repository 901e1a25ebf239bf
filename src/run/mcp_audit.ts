import type { Clock, Timer } from "../core/clock.ts";
import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { type Database, isRefusal } from "../store/database.ts";
import { insertMcpCalls, type McpCallRow } from "../store/mcp_calls.ts";

const FLUSH_MS = 500;
const MAX_BATCH = 500;
/** Rows that wait while Postgres is away. */
const MAX_ROWS = 20_000;

/** Calls of tools of MCP servers on their way to Postgres: off the calls' path, in batches, kept while Postgres is away. */
export class McpAudit {
  readonly #options: { db: Database; clock: Clock; log: Log };
  #rows: McpCallRow[] = [];
  #timer: Timer | null = null;
  #flushing: Promise<void> | null = null;
  #closed = false;

  constructor(options: { db: Database; clock: Clock; log: Log }) {
    this.#options = options;
  }

  /** Rows that wait. */
  get depth(): number {
    return this.#rows.length;
  }

  add(row: McpCallRow): void {
    this.#rows.push(row);
    if (this.#rows.length > MAX_ROWS) {
      const lost = this.#rows.splice(0, MAX_BATCH).length;
      this.#options.log.error("Rows of MCP calls were lost: too many wait for Postgres", { lost });
    }
    this.#arm();
  }

  /** Writes what waits; gives up at the first failure. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#options.clock.clearTimer(this.#timer);
    await this.#flushing;
    while (this.#rows.length > 0 && await this.#flush());
    if (this.#rows.length === 0) return;
    this.#options.log.error("Rows of MCP calls were lost: Postgres took none at the end", {
      lost: this.#rows.length,
    });
  }

  #arm(): void {
    if (this.#closed || this.#timer !== null || this.#flushing !== null) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = null;
      this.#flushing = this.#flush().then(() => {
        this.#flushing = null;
        if (this.#rows.length > 0) this.#arm();
      });
    }, FLUSH_MS);
  }

  /** Writes one batch; false when it waits on. */
  async #flush(): Promise<boolean> {
    const { db, log } = this.#options;
    const batch = this.#rows.splice(0, MAX_BATCH);
    try {
      await insertMcpCalls(db, batch);
      return true;
    } catch (error) {
      if (isRefusal(error)) {
        log.error("Rows of MCP calls were lost: Postgres refuses them", {
          lost: batch.length,
          error: toHubError(error),
        });
        return true;
      }
      log.warn("Rows of MCP calls wait for Postgres", { error: toHubError(error) });
      this.#rows = [...batch, ...this.#rows];
      return false;
    }
  }
}
