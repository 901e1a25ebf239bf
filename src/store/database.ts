import postgres from "postgres";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";

/** A pool of connections. */
export type Sql = postgres.Sql<Record<string, never>>;

/** The hub's two pools: writes of runs never wait behind somebody's long read. */
export interface Database {
  readonly control: Sql;
  readonly read: Sql;
  /** Waits for `query` at most `deadlineMs`; see `openDatabase`. */
  within<T>(query: PromiseLike<T> & { cancel?: () => void }): Promise<T>;
  /** True when Postgres answers. */
  ping(): Promise<boolean>;
  close(): Promise<void>;
}

/** How to reach Postgres. */
export interface DatabaseOptions {
  /** `postgres://…`; a pooler's address is fine with `prepare: false`. */
  url: string;
  poolSize: number;
  readPoolSize: number;
  /** Longest wait for any statement, client-side: the driver has no timeout of its own. */
  deadlineMs: number;
  /** Prepared statements; off behind a pooler in transaction mode. */
  prepare: boolean;
  clock: Clock;
  /** Called for each statement that failed or took too long by no fault of the caller. */
  onError?: (() => void) | undefined;
}

/** Opens both pools; connects at the first query. */
export function openDatabase(options: DatabaseOptions): Database {
  const pool = (max: number) =>
    postgres(options.url, {
      max,
      prepare: options.prepare,
      onnotice() {},
      connect_timeout: 5,
      idle_timeout: 0,
      max_lifetime: null,
      connection: { application_name: "loophub" },
    }) as Sql;
  const control = pool(options.poolSize);
  const read = pool(options.readPoolSize);
  const within = async <T>(query: PromiseLike<T> & { cancel?: () => void }): Promise<T> => {
    let timer: unknown;
    const late = new Promise<never>((_, reject) => {
      timer = options.clock.setTimer(() => {
        query.cancel?.();
        reject(unavailable(`Postgres did not answer within ${options.deadlineMs} ms`));
      }, options.deadlineMs);
    });
    try {
      return await Promise.race([query, late]);
    } catch (cause) {
      const error = toDatabaseError(cause);
      if (error.code !== "invalid_request" && !isUniqueViolation(error)) options.onError?.();
      throw error;
    } finally {
      options.clock.clearTimer(timer);
    }
  };
  return {
    control,
    read,
    within,
    async ping() {
      try {
        await within(read`select 1`);
        return true;
      } catch {
        return false;
      }
    },
    async close() {
      await Promise.all([control.end({ timeout: 2 }), read.end({ timeout: 2 })]);
    },
  };
}

/** SQLSTATE classes that say "not now": connection, resources, operator intervention, read-only. */
const PASSING_STATES = /^(08|53|57P|25006|40001|40P01)/;

/** SQLSTATEs of a time that does not exist or does not fit. */
const TIME_STATES = /^2200[78]$/;

/**
 * The error as the hub knows it: `database_unavailable` when waiting may help, `invalid_request` for text that Postgres
 * cannot hold, else `internal_error`; with its cause.
 */
export function toDatabaseError(error: unknown): HubError {
  if (error instanceof HubError) return error;
  const code = stateOf(error);
  const passing = PASSING_STATES.test(code) || /^(CONNECT|ECONN|ETIMEDOUT|EPIPE)/.test(code);
  if (passing) return unavailable("Postgres is not reachable or refuses work", error);
  if (isUnstorableText(error, code)) {
    const message = "A text cannot be stored: it has a NUL character or half of a surrogate pair";
    return new HubError("invalid_request", message, { cause: error });
  }
  if (TIME_STATES.test(code)) {
    const message = "A time is no time of the calendar, or out of the range that can be stored";
    return new HubError("invalid_request", message, { cause: error });
  }
  return new HubError("internal_error", "A database statement failed", { cause: error });
}

/** NUL is refused in `text` (22021) and in `jsonb` (22P05), a lone surrogate in `jsonb` as its syntax (22P02). */
function isUnstorableText(error: unknown, code: string): boolean {
  if (code === "22021" || code === "22P05") return true;
  return code === "22P02" && error instanceof Error && error.message.endsWith("for type json");
}

/** True for a failure of `within` because another transaction had written the same key. */
export function isUniqueViolation(error: unknown): boolean {
  return error instanceof HubError && stateOf(error.cause) === "23505";
}

/** SQLSTATE, or the driver's own code; empty for other errors. */
function stateOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function unavailable(message: string, cause?: unknown): HubError {
  return new HubError("database_unavailable", message, { retryAfterMs: 1000, cause });
}
