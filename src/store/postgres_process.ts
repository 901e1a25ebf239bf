import { join } from "node:path";
import { type Clock, sleep } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import { type ClusterPlace, lastLines } from "./postgres_cluster.ts";
import { spawnShell } from "./shell.ts";

/**
 * Runs Postgres (`$2…`) with its log in `$1` until standard input ends, which is when the hub is gone or wants it to
 * stop: then a fast shutdown (SIGINT), an immediate one after 10 s, and SIGKILL after 5 s more. Exits with Postgres' code.
 */
export const SUPERVISE = `umask 077
log=$1; shift
exec 3<&0 </dev/null >>"$log" 2>&1
"$@" 3<&- &
pg=$!
(
  while read -r _ <&3; do :; done
  after() {
    n=0
    while kill -0 "$pg" 2>/dev/null; do
      [ "$n" -ge "$1" ] && return 0
      n=$((n + 1)); sleep 0.1
    done
    exit 0
  }
  kill -INT "$pg"; after 100
  kill -QUIT "$pg"; after 50
  kill -KILL "$pg"
) &
watch=$!
exec 3<&-
trap 'kill -INT "$pg" 2>/dev/null' INT TERM HUP
while :; do
  wait "$pg"; code=$?
  kill -0 "$pg" 2>/dev/null || break
done
kill "$watch" 2>/dev/null
exit "$code"
`;

/** A Postgres that takes connections. */
export interface PostgresProcess {
  port: number;
  /** Process id of the postmaster. */
  pid: number;
  /** Resolves when it is gone, asked for or not. */
  exited: Promise<{ code: number }>;
  /** Asks for a fast shutdown and waits for the end. Idempotent. */
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 60_000;
const POLL_MS = 10;
const RETRY_MS = 200;

/**
 * Starts the cluster's Postgres on 127.0.0.1 and resolves when it takes connections. `port` is tried first and
 * another free one taken when it is in use. Throws `internal_error` with the end of Postgres' log.
 */
export async function startPostgresProcess(
  place: ClusterPlace,
  options: { port: number | null; clock: Clock; extraArgs?: string[] },
): Promise<PostgresProcess> {
  const { clock } = options;
  const startedMs = clock.monotonic();
  let port = options.port !== null && isFree(options.port) ? options.port : findFreePort();
  for (;;) {
    const logFrom = await logSize(place);
    const started = await startOnce(place, { port, clock, extraArgs: options.extraArgs ?? [] });
    if (started !== null) return started;
    const log = (await readLog(place)).slice(logFrom);
    const tooLate = clock.monotonic() - startedMs > START_TIMEOUT_MS;
    if (!tooLate && /could not bind|could not create any TCP/.test(log)) {
      port = findFreePort();
    } else if (!tooLate && log.includes("pre-existing shared memory block")) {
      // Backends of a killed postmaster end by themselves within moments.
      await sleep(clock, RETRY_MS);
    } else {
      throw new HubError(
        "internal_error",
        `The embedded Postgres did not start in ${place.folder}: ${lastLines(log)}`,
      );
    }
  }
}

async function startOnce(
  place: ClusterPlace,
  options: { port: number; clock: Clock; extraArgs: string[] },
): Promise<PostgresProcess | null> {
  const { port, clock } = options;
  const child = spawnShell(SUPERVISE, {
    account: place.account,
    args: postgresCommand(place, port, options.extraArgs),
  });
  let ended = false;
  const exited = child.status.then(({ code }) => {
    ended = true;
    return { code };
  });
  let stopping: Promise<void> | null = null;
  const stop = () => {
    stopping ??= child.stdin.close().catch(() => {}).then(() => exited).then(() => {});
    return stopping;
  };
  const deadlineMs = clock.monotonic() + START_TIMEOUT_MS;
  while (!ended) {
    const pid = await readyPid(place, port);
    if (pid !== null) return { port, pid, exited, stop };
    if (clock.monotonic() > deadlineMs) break;
    await sleep(clock, POLL_MS);
  }
  await stop();
  return null;
}

/** The supervisor's arguments: log file, then the command. Port and addresses are here because they are the hub's, not the operator's. */
export function postgresCommand(place: ClusterPlace, port: number, extraArgs: string[]): string[] {
  return [
    join(place.folder, "postgres.log"),
    place.binaries.postgres,
    "-D",
    join(place.folder, "data"),
    "-c",
    `port=${port}`,
    "-c",
    "listen_addresses=127.0.0.1",
    "-c",
    "unix_socket_directories=",
    ...extraArgs,
  ];
}

/**
 * The postmaster's pid once it says that it is ready: line 8 of `postmaster.pid`, as `pg_ctl` reads it (no failed
 * connection attempts in the log). A left-over file may say "ready" too: its number is none (see `clearLeftovers`).
 */
async function readyPid(place: ClusterPlace, port: number): Promise<number | null> {
  try {
    const text = await Deno.readTextFile(join(place.folder, "data", "postmaster.pid"));
    const lines = text.split("\n");
    if (lines[3] !== String(port) || lines[7]?.trim() !== "ready") return null;
    const pid = Number(lines[0]);
    return pid < 99_999_999 ? pid : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

async function readLog(place: ClusterPlace): Promise<string> {
  return await Deno.readTextFile(join(place.folder, "postgres.log"));
}

async function logSize(place: ClusterPlace): Promise<number> {
  return (await readLog(place)).length;
}

function isFree(port: number): boolean {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return false;
    throw error;
  }
}

function findFreePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  return port;
}
