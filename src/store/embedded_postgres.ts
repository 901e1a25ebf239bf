import { join } from "node:path";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { toFolderProblem } from "./folder_problem.ts";
import { findPostgresAccount } from "./postgres_account.ts";
import { installPostgres } from "./postgres_binaries.ts";
import {
  clearLeftovers,
  type ClusterPlace,
  createCluster,
  EMBEDDED_ROLE,
  hasCluster,
  removeHalfMade,
} from "./postgres_cluster.ts";
import { chooseClusterFolder, lockFolder } from "./postgres_folder.ts";
import { type PostgresProcess, startPostgresProcess } from "./postgres_process.ts";

/** A Postgres of the hub's own that lives and dies with it. */
export interface EmbeddedPostgres {
  /** `postgres://…` for the hub and for `psql`; holds the password. */
  url: string;
  port: number;
  /** Process id of the postmaster. */
  pid: number;
  /** The cluster's data directory (`PGDATA`). */
  dataDir: string;
  /** True when this start made the cluster. */
  firstStart: boolean;
  /** Resolves when Postgres is gone, asked for or not. */
  exited: Promise<{ code: number }>;
  /** Stops Postgres (fast shutdown), then gives the folder free. Idempotent. */
  stop(): Promise<void>;
}

/** What the embedded Postgres needs. */
export interface EmbeddedPostgresOptions {
  /** Made when it is missing. One hub at a time. */
  dataDir: string;
  log: Log;
  clock: Clock;
}

const LOG_LIMIT_BYTES = 8 * 1024 * 1024;

/**
 * Starts PostgreSQL 18 on the data folder, and makes the cluster first when there is none (see docs/operations.md for
 * the folder's layout). It ends with the hub, also when the hub is killed: its supervisor waits for the end of a pipe.
 * Throws `invalid_configuration` when another hub has the folder, its data is of another major version, or the
 * platform has no package, or the folder cannot be used; `internal_error` with Postgres' own words when it does not start.
 */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  try {
    return await startIn(options);
  } catch (error) {
    throw toFolderProblem(error, options.dataDir);
  }
}

async function startIn(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log, clock } = options;
  const account = await findPostgresAccount();
  await Deno.mkdir(options.dataDir, { recursive: true, mode: account === null ? 0o700 : 0o711 });
  const dataDir = await Deno.realPath(options.dataDir);
  const lock = await lockFolder(dataDir);
  try {
    const { folder, moved } = await chooseClusterFolder(dataDir, account);
    if (moved) {
      log.warn("Postgres keeps its data outside the data folder, which its user cannot reach", {
        dataDir,
        folder,
        user: account?.name,
      });
    }
    const binaries = await installPostgres(join(folder, "pg"));
    const place: ClusterPlace = { folder, account, binaries };
    const halfMade = await removeHalfMade(place);
    if (halfMade.length > 0) {
      log.warn("Removed what a start that was killed had left of a new cluster", { halfMade });
    }
    const firstStart = !await hasCluster(place);
    const password = await readPassword(dataDir, firstStart);
    if (firstStart) await createCluster(place, password);
    else await reportLeftovers(place, log);
    await prepareLogFile(place);
    const process = await startPostgresProcess(place, { port: await readPort(dataDir), clock });
    await Deno.writeTextFile(join(dataDir, "port"), `${process.port}\n`);
    return toEmbeddedPostgres(process, { place, password, firstStart, release: lock.release });
  } catch (error) {
    lock.release();
    throw error;
  }
}

function toEmbeddedPostgres(
  process: PostgresProcess,
  facts: { place: ClusterPlace; password: string; firstStart: boolean; release: () => void },
): EmbeddedPostgres {
  const { port, pid, exited } = process;
  let stopping: Promise<void> | null = null;
  return {
    url: urlOf(facts.password, port),
    port,
    pid,
    dataDir: join(facts.place.folder, "data"),
    firstStart: facts.firstStart,
    exited,
    stop() {
      stopping ??= process.stop().finally(facts.release);
      return stopping;
    },
  };
}

/** Address of the Postgres that another hub has started on this data folder. Throws `database_unavailable` while it is not up. */
export async function readRunningUrl(dataDir: string): Promise<string> {
  const port = await readPort(dataDir);
  if (port !== null) return urlOf(await readPassword(dataDir, false), port);
  throw new HubError("database_unavailable", `The Postgres of ${dataDir} is not up yet: try again`);
}

function urlOf(password: string, port: number): string {
  return `postgres://${EMBEDDED_ROLE}:${password}@127.0.0.1:${port}/${EMBEDDED_ROLE}`;
}

async function reportLeftovers(place: ClusterPlace, log: Log): Promise<void> {
  const done = await clearLeftovers(place);
  if (done !== null) log.warn("Cleared what an earlier hub left of Postgres", { done });
}

/** The cluster's password: made with the cluster, readable by the hub's user only. */
async function readPassword(dataDir: string, firstStart: boolean): Promise<string> {
  const path = join(dataDir, "password");
  if (!firstStart) return (await Deno.readTextFile(path)).trim();
  const bytes = crypto.getRandomValues(new Uint8Array(24));
  const password = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
  await Deno.writeTextFile(path, `${password}\n`, { mode: 0o600 });
  await Deno.chmod(path, 0o600);
  return password;
}

/** The port of the last start, so that saved `psql` addresses stay good; null at first. */
async function readPort(dataDir: string): Promise<number | null> {
  try {
    const port = Number((await Deno.readTextFile(join(dataDir, "port"))).trim());
    return Number.isInteger(port) && port > 0 && port < 65536 ? port : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Postgres' own log: kept over restarts, one older file beside it. */
async function prepareLogFile(place: ClusterPlace): Promise<void> {
  const path = join(place.folder, "postgres.log");
  const file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  const { size } = await file.stat();
  file.close();
  if (size > LOG_LIMIT_BYTES) {
    await Deno.rename(path, `${path}.1`);
    await Deno.writeTextFile(path, "", { mode: 0o600 });
  }
  if (place.account !== null) await Deno.chown(path, place.account.uid, place.account.gid);
}
