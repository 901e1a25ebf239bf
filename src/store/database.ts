import postgres from "postgres";
import { type Clock, sleep } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import { type Address, Dialer } from "./dialer.ts";
import { Pool, sameAgain, type Sql, type Statement } from "./pool.ts";

export type { Sql } from "./pool.ts";

/** The hub's pools, apart so that runs never wait behind requests. Ask for one anew each time: what got stuck is replaced. */
export interface Database {
  /** For events and leases of runs alone. */
  readonly runs: Sql;
  /** For all other writes. */
  readonly control: Sql;
  readonly read: Sql;
  /** Whether SELECT … FOR UPDATE SKIP LOCKED is to be had. */
  readonly skipLocked: boolean;
  /**
   * Waits for `query` at most `deadlineMs`; see `openDatabase`. It is a transaction of its own, and begun again when it
   * met others at the same rows (a deadlock, a failed serialization), so it must be all that the transaction is.
   */
  within<T>(query: Statement<T>): Promise<T>;
  /** Why nothing can be read and written now; null when it can. Known within a second, asked once for all who ask at a time. */
  whyUnready(): Promise<string | null>;
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
  /** SKIP LOCKED; off where the database has none. */
  skipLocked: boolean;
  clock: Clock;
  /** Called for each statement that failed or took too long by no fault of the caller. */
  onError?: (() => void) | undefined;
  /** Told when a pool's connections were given up for new ones. */
  onRenewed?(pool: PoolName, reason: string): void;
}

/** Each of the pools of a `Database`. */
export type PoolName = "runs" | "control" | "read";

/** One for the batch that is under way, one for renewals. */
const RUNS_POOL_SIZE = 2;

/** Longest wait for the answer of `whyUnready`. */
const READY_MS = 1000;
/** A write that Postgres had no room for is remembered this long. */
const NO_ROOM_MS = 2000;

/** Opens the pools; connects at the first query. */
export function openDatabase(options: DatabaseOptions): Database {
  const { clock, deadlineMs } = options;
  const dialer = new Dialer(clock);
  const open = (max: number, over: AbortSignal) => {
    const driverOptions = {
      max,
      prepare: options.prepare,
      onnotice() {},
      // It is asked at each new connection, and its failure ends the process; no statement here has arrays.
      fetch_types: false,
      // Before the deadline, so that the driver itself ends the attempt.
      connect_timeout: Math.min(5, deadlineMs * 0.8 / 1000),
      idle_timeout: 0,
      max_lifetime: null,
      connection: { application_name: "loophub" },
      // Known to the driver, not to its types.
      socket: (address: Address) => dialer.dial(address, over),
    };
    return postgres(options.url, driverOptions) as Sql;
  };
  const pool = (name: PoolName, max: number) =>
    new Pool({
      open: (over) => open(max, over),
      clock,
      onRenewed: (reason) => options.onRenewed?.(name, reason),
    });
  const runs = pool("runs", RUNS_POOL_SIZE);
  const control = pool("control", options.poolSize);
  const read = pool("read", options.readPoolSize);
  let noRoomMs = -Infinity;

  const ask = async <T>(
    first: Statement<T>,
    { on, limitMs }: { on: Pool; limitMs: number },
  ): Promise<T> => {
    let query = first;
    let { sql } = on;
    let begunMs = clock.monotonic();
    let timer: unknown;
    const late = new Promise<never>((_, reject) => {
      timer = clock.setTimer(() => {
        on.giveUp(query, { sql, begunMs });
        reject(unavailable(`Postgres did not answer within ${limitMs} ms`));
      }, limitMs);
    });
    try {
      for (let conflicts = 0;; conflicts++) {
        try {
          const answer = await Promise.race([query, late]);
          on.answered(query);
          return answer;
        } catch (error) {
          if (!isConflict(error) || conflicts === MAX_CONFLICTS) throw error;
          on.answered(query);
          const again = sameAgain(on.sql, query);
          if (again === null) throw error;
          await Promise.race([sleep(clock, Math.min(MAX_WAIT_MS, 5 * 2 ** conflicts)), late]);
          [query, sql, begunMs] = [again, on.sql, clock.monotonic()];
        }
      }
    } catch (error) {
      const code = stateOf(error);
      if (error instanceof postgres.PostgresError) on.answered(query);
      if (NO_ROOM_STATES.test(code)) noRoomMs = clock.monotonic();
      if (RENEWING_STATES.test(code)) on.refused(sql, `Postgres says ${code}`);
      const failure = toDatabaseError(error);
      if (failure.code !== "invalid_request" && !isUniqueViolation(failure)) options.onError?.();
      throw failure;
    } finally {
      clock.clearTimer(timer);
    }
  };

  const lookWhy = async (): Promise<string | null> => {
    const limitMs = Math.min(READY_MS, deadlineMs);
    const { sql } = control;
    try {
      const [rows] = await Promise.all([
        ask(
          sql<{ on: boolean }[]>`select current_setting('transaction_read_only')::boolean as on`,
          {
            on: control,
            limitMs,
          },
        ),
        ask(read.sql`select 1`, { on: read, limitMs }),
      ]);
      if (rows[0]?.on === true) {
        control.refused(sql, "Postgres is read-only");
        return "Postgres is read-only";
      }
      return clock.monotonic() - noRoomMs < NO_ROOM_MS ? "Postgres has no room" : null;
    } catch {
      return "Postgres does not answer";
    }
  };
  let looking: Promise<string | null> | null = null;

  return {
    get runs() {
      return runs.sql;
    },
    get control() {
      return control.sql;
    },
    get read() {
      return read.sql;
    },
    skipLocked: options.skipLocked,
    within: (query) =>
      ask(query, {
        on: [runs, read].find((pool) => pool.owns(query)) ?? control,
        limitMs: deadlineMs,
      }),
    whyUnready() {
      looking ??= lookWhy().finally(() => looking = null);
      return looking;
    },
    async close() {
      await Promise.all([runs.close(), control.close(), read.close()]);
    },
  };
}

/** No room on disk or in memory. */
const NO_ROOM_STATES = /^53[12]00$/;
/** How often the same is tried again after a conflict, and the longest wait before. */
const MAX_CONFLICTS = 9;
const MAX_WAIT_MS = 160;
/** Said by a connection that leads to the wrong server, or to none. */
const RENEWING_STATES = /^(25006|CONNECT_TIMEOUT)$/;

/** SQLSTATEs that say "not now": connection, resources, a statement cancelled, a server that ends or fails, read-only. */
const PASSING_STATES = /^(08|53|57|58|25006|4000[13]|40P01|55P03)/;

/** The same of the driver and of the network. */
const PASSING_CODES =
  /^(CONNECT|ECONN|ETIMEDOUT|EPIPE|EHOST(UNREACH|DOWN)|ENET(UNREACH|DOWN)|ENOTFOUND|EAI_AGAIN|EMFILE|ENFILE)/;

/** SQLSTATEs of a time that does not exist or does not fit. */
const TIME_STATES = /^2200[78]$/;

/**
 * The error as the hub knows it: `database_unavailable` when waiting may help, `invalid_request` for text that Postgres
 * cannot hold, else `internal_error`; with its cause.
 */
export function toDatabaseError(error: unknown): HubError {
  if (error instanceof HubError) return error;
  const code = stateOf(error);
  if (PASSING_STATES.test(code) || PASSING_CODES.test(code) || isConnectFailure(error)) {
    return unavailable("Postgres is not reachable or refuses work", error);
  }
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

/**
 * True when no connection was had, or it was ended, whatever its SQLSTATE says: Postgres tells a client that it cannot
 * serve, or that it crashes, with the severity FATAL or PANIC. The driver's own words about signing in count too, and any
 * error of the operating system: a statement that was sent and refused has neither.
 */
function isConnectFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof postgres.PostgresError) return /^(FATAL|PANIC)$/.test(error.severity);
  return "syscall" in error || "errno" in error || /^(SASL|AUTH)_/.test(stateOf(error)) ||
    Object.values(Deno.errors).some((kind) => error instanceof kind);
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

/** True for a failure of `within` because what was to be written is wrong: SQLSTATE class 22 (data) or 23 (constraints). */
export function isRefusal(error: unknown): boolean {
  return /^2[23]/.test(stateOf(toHubError(error).cause));
}

/** True for an error of the driver that says that the transaction was rolled back because of others at the same time. */
export function isConflict(error: unknown): boolean {
  return /^(40001|40P01)$/.test(stateOf(error));
}

/** SQLSTATE, or the driver's own code; empty for other errors. */
export function stateOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function unavailable(message: string, cause?: unknown): HubError {
  return new HubError("database_unavailable", message, { retryAfterMs: 1000, cause });
}
