import type { LoadedConfig } from "../config/load.ts";
import { HubError } from "../core/error.ts";
import type { HubOptions } from "../hub/hub_options.ts";
import { takeOver, tellWaiting } from "../hub/live_config.ts";
import { issueFirstKey } from "../policy/issue_key.ts";
import { Pepper } from "../policy/pepper.ts";
import { listModels } from "../router/resolve.ts";
import { loadMasterKey } from "../store/master_key.ts";
import { type OpenedPostgres, openPostgres } from "../store/open_postgres.ts";
import { assertPortFree } from "./assert_port_free.ts";
import { EXIT } from "./exit_codes.ts";
import { introduce } from "./introduce.ts";
import { permissionFlags } from "./permission_flags.ts";
import { tellDatabaseLost } from "./serve_until_stopped.ts";
import { spawnWorker } from "./spawn_worker.ts";
import { catchStopSignal, type StopSignal } from "./stop_signals.ts";
import { reloadSystemConfig, systemHubOptions } from "./system.ts";
import { WorkerPool } from "./worker_pool.ts";

/** Connections of the embedded Postgres that workers may use; the rest is for psql, commands and itself. */
const EMBEDDED_CONNECTIONS = 90;
/** Connections of a worker beside those of the configuration: two for its runs, one for LISTEN. */
const OTHER_CONNECTIONS = 3;
/** What a worker may take to end beside what the configuration gives it, in milliseconds. */
const END_GRACE_MS = 5000;

/**
 * Serves one port with `count` processes over one Postgres, which this one starts, migrates and stops; it answers no
 * request itself. Gives the exit code.
 */
export async function serveWorkers(loaded: LoadedConfig, count: number): Promise<number> {
  const permissions = permissionFlags((name) =>
    Deno.permissions.querySync({ name }).state === "granted"
  );
  assertEnoughConnections(loaded, count);
  assertPortFree(loaded.config.server);
  const options = systemHubOptions(loaded);
  const { log, clock } = options;
  let current = loaded;
  let killWorkers = () => {};
  const stopSignal = catchStopSignal(() => killWorkers());
  const postgres = await openPostgres(loaded, { clock, log });
  const pool = new WorkerPool({
    count,
    clock,
    log,
    spawn: (number, url) =>
      spawnWorker({ number, loaded: toWorkerConfig(current, postgres, url) }, permissions),
  });
  killWorkers = () => pool.kill();
  const apply = async (next: LoadedConfig) => {
    for (const secret of next.secrets) options.addSecret(secret);
    await pool.reload(next, () => {
      tellWaiting(loaded.config, next.config, log);
      // A worker that is started later must not differ from the others, nor begin with what they refuse.
      current = { ...next, config: takeOver(loaded.config, next.config) };
    });
  };
  const endReloading = await reloadSystemConfig(loaded, { apply, log });
  let signal: StopSignal = "SIGINT";
  const serve = async (): Promise<number> => {
    const started = await Promise.race([pool.start(), stopSignal]);
    if (typeof started === "string") {
      signal = started;
      return EXIT.ok;
    }
    if ("code" in started) return started.code;
    const key = await makeFirstKey(postgres, options);
    const models = listModels(loaded.config).map((model) => model.id);
    await introduce({
      url: started.url,
      databaseUrl: postgres.url,
      isEmbedded: loaded.config.database.url === undefined,
      dataDir: postgres.dataDir,
      models,
      key,
    });
    for (const note of loaded.notes) log.info(note);
    const end = await Promise.race([stopSignal, postgres.lost]);
    signal = end ?? "SIGINT";
    return end === undefined ? tellDatabaseLost() : EXIT.ok;
  };
  let codes: number[] = [];
  let code: number = EXIT.failed;
  try {
    code = await serve();
  } finally {
    endReloading();
    const { shutdownDelayMs, shutdownGraceMs } = loaded.config.server;
    codes = await pool.stop(signal, shutdownDelayMs + shutdownGraceMs + END_GRACE_MS);
    await postgres.stop();
  }
  return code === EXIT.ok && codes.includes(EXIT.usageLeft) ? EXIT.usageLeft : code;
}

function assertEnoughConnections({ config: { database } }: LoadedConfig, count: number): void {
  const wanted = count * (database.poolSize + database.readPoolSize + OTHER_CONNECTIONS);
  if (database.url !== undefined || wanted <= EMBEDDED_CONNECTIONS) return;
  throw new HubError(
    "invalid_configuration",
    `${count} workers want ${wanted} connections, and the embedded Postgres has ${EMBEDDED_CONNECTIONS} for them: start fewer, lower database.poolSize and database.readPoolSize, or set DATABASE_URL`,
  );
}

/** The configuration of a worker: what the parent had to find out is settled. */
function toWorkerConfig(
  loaded: LoadedConfig,
  postgres: OpenedPostgres,
  url: string | null,
): LoadedConfig {
  const { config, secrets } = loaded;
  const { server, database } = config;
  const port = url === null ? server.port : Number(new URL(url).port || 80);
  const { password } = new URL(postgres.url);
  return {
    ...loaded,
    config: {
      ...config,
      server: { ...server, port },
      database: { ...database, url: postgres.url },
    },
    secrets: password === "" ? secrets : [...secrets, password],
  };
}

async function makeFirstKey(
  postgres: OpenedPostgres,
  options: HubOptions,
): Promise<string | null> {
  const { env, randomBytes } = options;
  const given = env("LOOPHUB_MASTER_KEY");
  const key = await loadMasterKey({ given, dataDir: postgres.dataDir, randomBytes });
  const db = postgres.connect();
  try {
    const pepper = await Pepper.load({ ...options, db, key });
    return await issueFirstKey(db, { ...options, pepper });
  } finally {
    await db.close();
  }
}
