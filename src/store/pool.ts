import type postgres from "postgres";
import type { Clock } from "../core/clock.ts";

/** The driver's pool of connections. */
export type Sql = postgres.Sql<Record<string, never>>;

/** A statement that may be under way. */
export interface Statement<T = unknown> extends PromiseLike<T> {
  /** The backend that it was sent to; null before. */
  state?: object | null;
  /** It is the one that its backend works on; others may be sent behind it. */
  active?: boolean;
  /**
   * Takes an unsent statement back, or asks Postgres to cancel a sent one. The driver's own `cancel()` drops the
   * promise, and a refused connection then ends the process.
   */
  canceller?: ((statement: Statement) => Promise<void>) | null;
  /** What it was made of; see `sameAgain`. */
  readonly strings?: TemplateStringsArray;
  readonly args?: readonly unknown[];
}

/** The same statement, not sent yet; null for one that was not written as a template. */
export function sameAgain<T>(sql: Sql, { strings, args = [] }: Statement<T>): Statement<T> | null {
  if (!Array.isArray(strings?.raw)) return null;
  return sql(strings as TemplateStringsArray, ...args as never[]) as unknown as Statement<T>;
}

/** What a pool needs. */
export interface PoolOptions {
  /** `over` aborts when these connections are wanted no more. */
  open(over: AbortSignal): Sql;
  clock: Clock;
  onRenewed(reason: string): void;
}

/** How long a cancelled statement may take to end before its connection counts as dead. */
const CANCEL_MS = 1000;
/** How often is looked whether the turn of a statement has come that is to be cancelled. */
const TURN_MS = 50;
/** How long statements of a pool that was given up may go on. */
const LAST_SECONDS = 1;

/**
 * A pool of the driver that is replaced when it does not work any more. The driver never notices a connection that
 * is half open, and loses one for good whose first statement was taken back while it connected.
 */
export class Pool {
  readonly #options: PoolOptions;
  readonly #endings = new Set<Promise<void>>();
  /** When each backend has last answered: a slow one still does, a dead one does not. */
  readonly #answers = new WeakMap<object, number>();
  #answeredMs = 0;
  #refusedMs = -Infinity;
  #over = new AbortController();
  #sql: Sql;
  #canceller: Statement["canceller"];

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#sql = options.open(this.#over.signal);
    this.#canceller = cancellerOf(this.#sql);
  }

  get sql(): Sql {
    return this.#sql;
  }

  /** True for a statement of this pool that has not been given up. */
  owns({ canceller }: Statement): boolean {
    return canceller === this.#canceller;
  }

  /** Postgres has said something about a statement, be it an error. */
  answered({ state }: Statement): void {
    this.#answeredMs = this.#options.clock.monotonic();
    if (state) this.#answers.set(state, this.#answeredMs);
  }

  /** Ends a statement whose deadline has passed. */
  giveUp(statement: Statement, { sql, begunMs }: { sql: Sql; begunMs: number }): void {
    const { clock } = this.#options;
    const { state, canceller } = statement;
    if (!canceller) return;
    statement.canceller = null;
    if (!state) {
      canceller(statement).catch(() => {});
      if (this.#answeredMs < begunMs) this.#renew(sql, "no connection was to be had");
      return;
    }
    this.#cancelInTurn(statement, canceller);
    const timer = clock.setTimer(() => {
      if ((this.#answers.get(state) ?? 0) < begunMs) this.#renew(sql, "a connection is dead");
    }, CANCEL_MS);
    const forget = () => clock.clearTimer(timer);
    statement.then(forget, forget);
  }

  /**
   * Cancels a statement once its backend works on it. Told before, the driver would cancel it when its turn comes and
   * not wait for what Postgres says of it: whoever stands behind it would get its answer.
   */
  #cancelInTurn(statement: Statement, canceller: (statement: Statement) => Promise<void>): void {
    if (statement.active === true) return void canceller(statement).catch(() => {});
    const { clock } = this.#options;
    const timer = clock.setTimer(() => this.#cancelInTurn(statement, canceller), TURN_MS);
    const forget = () => clock.clearTimer(timer);
    statement.then(forget, forget);
  }

  /** A connection does not take what is sent; others may go to a server that does. At most once a second. */
  refused(sql: Sql, reason: string): void {
    const nowMs = this.#options.clock.monotonic();
    if (sql !== this.#sql || nowMs - this.#refusedMs < 1000) return;
    this.#refusedMs = nowMs;
    this.#renew(sql, reason);
  }

  async close(): Promise<void> {
    this.#end(2);
    await Promise.all(this.#endings);
  }

  #renew(sql: Sql, reason: string): void {
    if (sql !== this.#sql) return;
    this.#end(LAST_SECONDS);
    this.#over = new AbortController();
    this.#sql = this.#options.open(this.#over.signal);
    this.#canceller = cancellerOf(this.#sql);
    this.#options.onRenewed(reason);
  }

  #end(timeout: number): void {
    const over = this.#over;
    const ending = this.#sql.end({ timeout }).catch(() => {}).finally(() => {
      over.abort();
      this.#endings.delete(ending);
    });
    this.#endings.add(ending);
  }
}

/** What each of the pool's statements has. The one asked here is never begun. */
function cancellerOf(sql: Sql): Statement["canceller"] {
  return (sql`select 1` as Statement).canceller;
}
