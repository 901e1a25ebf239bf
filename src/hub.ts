import type { LoadedConfig } from "./config/load.ts";
import { listModelNames } from "./config/model_name.ts";
import { type Clock, sleep } from "./core/clock.ts";
import { ClosingOrder } from "./core/closing_order.ts";
import { Deadlines } from "./core/deadlines.ts";
import type { IdSource } from "./core/id.ts";
import type { Log } from "./core/log.ts";
import { type App, createApp } from "./http/app.ts";
import { createHostPolicy } from "./http/middleware/host_check.ts";
import { openPort } from "./http/open_port.ts";
import { aiSdkRoutes } from "./http/routes/ai_sdk_chat.ts";
import { chatCompletionsRoute } from "./http/routes/chat_completions.ts";
import { healthRoutes } from "./http/routes/health.ts";
import { modelRoutes } from "./http/routes/models.ts";
import { runRoutes } from "./http/routes/runs.ts";
import { sessionRoutes } from "./http/routes/sessions.ts";
import type { HubServer } from "./http/server/server.ts";
import { createBuiltinOperations } from "./operations/builtin/builtin_operations.ts";
import { loadOperationModules } from "./operations/load_modules.ts";
import { createRegistry } from "./operations/registry.ts";
import { derivePepper } from "./policy/api_key.ts";
import { createAuthenticate } from "./policy/authenticate.ts";
import { issueFirstKey } from "./policy/issue_key.ts";
import { KeySnapshots } from "./policy/key_snapshot.ts";
import { createTargets } from "./providers/create_targets.ts";
import { sendToDemo } from "./providers/demo.ts";
import { createHttpClient } from "./providers/http1/client.ts";
import { createOpenAnswer } from "./router/open_answer.ts";
import { createResolver, listModels } from "./router/resolve.ts";
import { TargetHealth } from "./router/target_health.ts";
import { createAgents } from "./run/create_agents.ts";
import { endRuns } from "./run/end_runs.ts";
import { createExecuteTool } from "./run/execute_tool.ts";
import { FanOut } from "./run/fan_out.ts";
import { startHousekeeping } from "./run/housekeeping.ts";
import { LiveRuns } from "./run/live_runs.ts";
import type { StartOptions } from "./run/start_run.ts";
import type { TakeOverOptions } from "./run/take_over.ts";
import { createRecordUsage } from "./run/record_usage.ts";
import { UsageSpool } from "./run/usage_spool.ts";
import { readBlob } from "./store/blobs.ts";
import { readClientKeys } from "./store/clients.ts";
import { guardAgainstDriverCrash } from "./store/driver_guard.ts";
import { readKeyByLookup } from "./store/keys.ts";
import { loadMasterKey } from "./store/master_key.ts";
import { readHistory } from "./store/messages.ts";
import { openPostgres } from "./store/open_postgres.ts";
import { DEFAULT_TENANT_ID } from "./store/tenant.ts";
import { createMetrics } from "./telemetry/metrics.ts";

/** What a hub is built from; everything that differs between a process and a test. */
export interface HubOptions {
  loaded: LoadedConfig;
  clock: Clock;
  ids: IdSource;
  random: () => number;
  randomBytes: (length: number) => Uint8Array;
  log: Log;
  env: (name: string) => string | undefined;
  /** Called with each secret that comes to light, so that the log never shows it. */
  addSecret(secret: string): void;
  /** Takes the secrets that are known out of a text. */
  redact(text: string): string;
  /** Whether the Postgres of a hub that runs on the same data folder will do. */
  sharePostgres?: boolean;
  /** Number of this process among those that share a port, whose parent has applied all migrations. */
  worker?: number;
}

/** A hub that is built and connected; `listen` opens its port. */
export interface Hub {
  app: App;
  /** Address for `psql`, password included. */
  databaseUrl: string;
  /** Makes an admin key when there is none at all; null otherwise. Only the hash is stored: show it at once. */
  makeFirstKey(): Promise<string | null>;
  models: readonly string[];
  start: StartOptions;
  findAgent: ReturnType<typeof createAgents>;
  /** Opens the port; a worker shares it with the others. */
  listen(): HubServer;
  /** Resolves when the embedded Postgres ended by itself. */
  databaseLost: Promise<void>;
  /**
   * Says that it is not ready, and serves on for `server.shutdownDelayMs`, until load balancers have noticed. `close`
   * then leaves runs to other replicas.
   */
  leave(): Promise<void>;
  /** Stops or leaves runs, writes what waits, and ends Postgres if it is the hub's own. Never rejects. */
  close(): Promise<void>;
}

/** The hub's end. Each part still has all that stands behind it: runs write and stream their ends, cut answers are accounted. */
const CLOSING_ORDER = [
  "readiness",
  "listener",
  "housekeeping",
  "runs",
  "server",
  "fan-out",
  "keys",
  "upstreams",
  "deadlines",
  "usage",
  "database",
  "driver guard",
  "postgres",
] as const;

/** Builds everything and joins it: the only place that knows all parts. */
export async function createHub(options: HubOptions): Promise<Hub> {
  const { loaded, clock, ids, log, randomBytes, random, sharePostgres: share = false } = options;
  const { config } = loaded;
  const closing = new ClosingOrder(
    CLOSING_ORDER,
    (part, error) => log.error("A part of the hub did not end well", { part, error }),
  );
  let stopping = false;
  let leaveMs: number | null = null;
  closing.add("readiness", () => void (stopping = true));
  try {
    const isWorker = options.worker !== undefined;
    const postgres = await openPostgres(loaded, { clock, log, share, isMigrated: isWorker });
    closing.add("postgres", () => postgres.stop());
    const metrics = createMetrics({ models: listModelNames(config), worker: options.worker });
    const db = postgres.connect({ onError: metrics.databaseError });
    closing.add("database", () => db.close());
    closing.add("driver guard", guardAgainstDriverCrash(log));
    const masterKey = await loadMasterKey({
      given: options.env("LOOPHUB_MASTER_KEY"),
      dataDir: postgres.dataDir,
      randomBytes,
    });
    const stored = await readClientKeys(db, { tenantId: DEFAULT_TENANT_ID, key: masterKey });
    for (const secret of stored.values()) options.addSecret(secret);

    const keys = new KeySnapshots({ db, clock, log, refreshMs: 5000 });
    await keys.refresh();
    const pepper = derivePepper(masterKey.bytes);
    keys.start();
    closing.add("keys", () => keys.close());

    const spool = new UsageSpool({ db, clock, log, onDepth: (rows) => metrics.usageQueue(rows) });
    closing.add("usage", () => spool.close());
    const http = createHttpClient({ clock });
    closing.add("upstreams", () => http.close());
    const findTarget = createTargets(config, { http: http.send, demo: sendToDemo, stored });
    const resolve = createResolver(config, findTarget);
    const deadlines = new Deadlines(clock);
    closing.add("deadlines", () => deadlines.close());
    const openAnswer = createOpenAnswer({
      clock,
      random,
      log,
      redact: options.redact,
      health: new TargetHealth(clock),
      deadlines,
      maxConcurrent: (provider) => config.providers[provider]?.maxConcurrent ?? 256,
      recordUsage: createRecordUsage({ metrics, spool, ids }),
    });

    const operations = [
      ...createBuiltinOperations({
        readBlob: (ref, key) => readBlob(db, { ...key, blobId: ref }),
        readMessages: (key) => readHistory(db, key),
      }),
      ...await loadOperationModules(config.operations.modules, { folder: loaded.folder }),
    ];
    const { toolTimeoutMs } = config.limits;
    const tools = createRegistry({ operations, toolTimeoutMs, clock, log }).list();
    const findAgent = createAgents(config, { tools, resolve, openAnswer });
    const owner = `${Deno.pid}-${ids.next("req").slice(4, 20)}`;
    const { leaseMs, retentionHours } = config.runs;
    const { notify: enabled } = config.database;
    const { directUrl } = postgres;
    const fanOut = new FanOut({ db, directUrl, enabled, metrics, clock, random, log });
    closing.add("fan-out", () => fanOut.close());
    const onCommitted = (runId: string) => fanOut.committed(runId);
    const live = new LiveRuns({
      db,
      clock,
      log,
      leaseMs,
      onCommitted,
      onEnd({ fold, record: { agent } }) {
        const { finishReason } = fold.facts();
        metrics.run({ agent, finishReason: finishReason ?? "lost" });
      },
    });
    closing.add("runs", () => endRuns(live, { leaveMs, clock, log }));
    const start: StartOptions = {
      db,
      live,
      clock,
      ids,
      random,
      log,
      owner,
      leaseMs,
      executeTool: createExecuteTool({ db, ids, observe: metrics.toolCall }),
    };
    const takeOver: TakeOverOptions = {
      start,
      findAgent,
      recordUsage: (row) => spool.add({ ...row, usageId: ids.next("usg") }),
      onCommitted,
    };
    closing.add(
      "housekeeping",
      startHousekeeping({ db, clock, log, leaseMs, retentionHours, takeOver }),
    );
    fanOut.listen({
      onStops: (runIds) => live.checkStops(runIds),
      onKeys: () => keys.check(),
    });

    const stopped = new AbortController();
    const follow = { db, live, wakeups: fanOut.wakeups, stopped: stopped.signal };
    const onStopElsewhere = (runId: string) => fanOut.stopRequested(runId);
    const runs = { start, follow, findAgent, onStopElsewhere };
    const app = createApp({
      routes: [
        ...healthRoutes({
          async notReady() {
            if (stopping) return "the hub is stopping";
            return await db.whyUnready();
          },
          metrics,
        }),
        ...modelRoutes({ models: listModels(config), resolve, createdAt: clock.now() }),
        chatCompletionsRoute({
          resolve,
          openAnswer,
          ui: { ids },
          keepaliveMs: config.server.keepaliveMs,
        }),
        ...sessionRoutes({ db, ids, findAgent }),
        ...runRoutes(runs),
        ...aiSdkRoutes({ ...runs, ids }),
      ],
      authenticate: createAuthenticate({
        snapshot: () => keys.current,
        lookup: (lookupId) => readKeyByLookup(db, lookupId),
        pepper,
        clock,
      }),
      hosts: createHostPolicy({
        boundHost: config.server.host,
        trustedHosts: config.server.trustedHosts,
      }),
      ids,
      clock,
      log,
      maxBodyBytes: config.server.maxBodyBytes,
      maxConcurrentRequests: config.server.maxConcurrentRequests,
      observe({ route, method, status, durationMs, overheadMs }) {
        metrics.request({ route, method, status, durationMs });
        metrics.overhead(overheadMs);
      },
      onStream: metrics.openStreams,
      info: { title: "Loophub", version: "0.1.0" },
    });
    return {
      app,
      databaseUrl: postgres.url,
      async makeFirstKey() {
        const token = await issueFirstKey(db, { ...options, pepper });
        if (token !== null) await keys.refresh();
        return token;
      },
      models: listModels(config).map((model) => model.id),
      start,
      findAgent,
      databaseLost: postgres.lost,
      async leave() {
        stopping = true;
        leaveMs = config.server.shutdownGraceMs;
        await sleep(clock, config.server.shutdownDelayMs);
      },
      close: () => closing.close(),
      listen() {
        const port = openPort({ app, server: config.server, reusePort: isWorker, clock, log });
        closing.add("listener", () => {
          port.stopListening();
          stopped.abort();
          fanOut.wakeups.wakeAll();
        });
        closing.add("server", () => port.drain());
        return port.server;
      },
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
