import { resolve } from "node:path";
import { DEFAULT_DATA_DIR, type LoadedConfig } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import { type Database, openDatabase } from "./database.ts";
import { readRunningUrl, startEmbeddedPostgres } from "./embedded_postgres.ts";
import { migrate } from "./migrate.ts";
import { keepPostgres, type KeptPostgres } from "./postgres_keeper.ts";

/** The Postgres that the configuration means, with all migrations. */
export interface OpenedPostgres {
  /** `postgres://…`, password included. */
  url: string;
  /** The same past any pooler. */
  directUrl: string;
  /** Folder of the embedded Postgres and of the master key. */
  dataDir: string;
  /** Resolves when a Postgres that was started here ended by itself and cannot be started again. */
  lost: Promise<void>;
  connect(options?: { onError?: () => void }): Database;
  /** Ends it if it was started here. */
  stop(): Promise<void>;
}

const MIGRATIONS = new URL("../../migrations/", import.meta.url);

/**
 * Opens the Postgres at `database.url`, else starts the embedded one. With `share`, one that another hub has started on
 * the data folder is used as it is; without, it throws `invalid_configuration`. `isMigrated` says that whoever started this process has applied all migrations.
 */
export async function openPostgres(
  { config: { database }, folder }: Pick<LoadedConfig, "config" | "folder">,
  options: { clock: Clock; log: Log; share?: boolean; isMigrated?: boolean },
): Promise<OpenedPostgres> {
  const { clock, log } = options;
  const dataDir = database.dataDir ?? resolve(folder, DEFAULT_DATA_DIR);
  const { url, lost, stop } = database.url === undefined
    ? await startOrShare(dataDir, options)
    : { ...NOT_OURS, url: database.url };
  const directUrl = database.directUrl ?? url;
  try {
    if (options.isMigrated !== true) await migrate(directUrl, { folder: MIGRATIONS, log });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url,
    directUrl,
    dataDir,
    lost,
    connect: ({ onError } = {}) =>
      openDatabase({
        url,
        poolSize: database.poolSize,
        readPoolSize: database.readPoolSize,
        deadlineMs: database.statementTimeoutMs,
        prepare: database.prepare,
        skipLocked: database.skipLocked,
        clock,
        onError,
        onRenewed: (pool, reason) =>
          log.warn("Connections to Postgres were replaced", { pool, reason }),
      }),
    stop,
  };
}

const NOT_OURS = { lost: new Promise<never>(() => {}), stop: () => Promise.resolve() };

async function startOrShare(
  dataDir: string,
  { clock, log, share }: { clock: Clock; log: Log; share?: boolean },
): Promise<KeptPostgres & { url: string }> {
  const start = () => startEmbeddedPostgres({ dataDir, log, clock });
  try {
    const first = await start();
    return { url: first.url, ...keepPostgres(first, { start, clock, log }) };
  } catch (error) {
    const isHeld = error instanceof HubError && error.details?.["holder"] !== undefined;
    if (share !== true || !isHeld) throw error;
    return { ...NOT_OURS, url: await readRunningUrl(dataDir) };
  }
}
