import type { LoadedConfig } from "../config/load.ts";
import { sleep } from "../core/clock.ts";
import type { HoldKey } from "../core/key_end.ts";
import { VERSION } from "../core/version.ts";
import { type App, createApp } from "../http/app.ts";
import { ownOrigins } from "../http/middleware/origin_check.ts";
import { createHostPolicy } from "../http/middleware/host_check.ts";
import { openPort } from "../http/open_port.ts";
import type { HubServer } from "../http/server/server.ts";
import type { McpServers } from "../mcp/mcp_servers.ts";
import { createAuthenticate } from "../policy/authenticate.ts";
import { issueFirstKey } from "../policy/issue_key.ts";
import { KeySnapshots } from "../policy/key_snapshot.ts";
import { KeyDesk } from "../policy/manage_keys.ts";
import { ProviderDesk } from "../policy/manage_providers.ts";
import { Pepper } from "../policy/pepper.ts";
import type { FindAgent } from "../run/create_agents.ts";
import type { FollowOptions } from "../run/follow_run.ts";
import type { StartOptions } from "../run/runnable_agent.ts";
import type { UnwrittenRows } from "../run/usage_spool.ts";
import { readKeyByLookup } from "../store/keys.ts";
import { openAgents } from "./agents.ts";
import { createClosing } from "./closing.ts";
import { openGateway } from "./gateway.ts";
import { openGround } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";
import { openMcpOAuth } from "./mcp_oauth.ts";
import { type McpServerPart, openMcpServer } from "./mcp_server.ts";
import { createRoutes } from "./routes.ts";

/** A hub that is built and connected; `listen` opens its port. */
export interface Hub {
  app: App;
  /** Address for `psql`, password included. */
  databaseUrl: string;
  /** Folder of the embedded Postgres and of the master key. */
  dataDir: string;
  /** Makes an admin key when there is none at all; null otherwise. Only the hash is stored: show it at once. */
  makeFirstKey(): Promise<string | null>;
  models: readonly string[];
  start: StartOptions;
  /** Servers whose tools agents use. */
  mcp: McpServers;
  findAgent: FindAgent;
  /** For whoever follows runs in this process. */
  follow: FollowOptions;
  /** Looks for runs to go on with, on all replicas. */
  onClaimable(): void;
  /** What answers MCP requests that come by other ways than the port. */
  mcpServer: McpServerPart["protocol"];
  /** Opens the port; a worker shares it with the others. */
  listen(): HubServer;
  /**
   * Takes a configuration over that was loaded again, once its workspaces are open; requests under way go on with the one
   * that they began with. Rejects with `invalid_configuration`, and changes nothing, where that cannot be.
   */
  reload(loaded: LoadedConfig): Promise<void>;
  /** Resolves when the embedded Postgres ended by itself. */
  databaseLost: Promise<void>;
  /**
   * Says that it is not ready, and serves on for `server.shutdownDelayMs`, until load balancers have noticed. `close`
   * then leaves runs to other replicas.
   */
  leave(): Promise<void>;
  /**
   * Stops or leaves runs, writes what waits, and ends Postgres if it is the hub's own; gives the usage rows that Postgres
   * did not take. Ends within `server.shutdownGraceMs` and five seconds. Never rejects.
   */
  close(): Promise<UnwrittenRows>;
}

/** Builds all parts and joins them. */
export async function createHub(options: HubOptions): Promise<Hub> {
  const { loaded: { config }, clock, ids, log } = options;
  const closing = createClosing({ log, clock, graceMs: config.server.shutdownGraceMs });
  let stopping = false;
  let mustLeaveRuns = false;
  let reloading: Promise<void> = Promise.resolve();
  closing.add("readiness", () => void (stopping = true));
  try {
    const ground = await openGround(options, closing);
    const { db, metrics, postgres } = ground;
    const keys = new KeySnapshots({ db, clock, log, refreshMs: 5000 });
    await keys.refresh();
    const pepper = await Pepper.load({ db, key: ground.masterKey, log });
    keys.start();
    closing.add("keys", () => keys.close());

    const policyOf = (keyId: string) => keys.policyOf(keyId);
    const holdKey: HoldKey = (keyId, onEnd) => keys.ends.hold(keyId, onEnd);
    const gateway = openGateway({ ...options, policyOf, holdKey }, ground, closing);
    const oauth = openMcpOAuth(options, {
      ground,
      keys,
      live: gateway.live,
      mcp: () => agents.mcp,
    });
    const agents = await openAgents(
      {
        ...options,
        mcpAuth: oauth.tokens,
        policyOf,
        holdKey,
        findKey: (key) => keys.findKey(key),
        mustLeaveRuns: () => mustLeaveRuns,
      },
      { ground, gateway, closing },
    );
    const { start, findAgent, live, fanOut, housekeeping } = agents;
    fanOut.listen({
      async onRequests(runIds) {
        await Promise.all([live.checkRequests(runIds), agents.questions.check(runIds)]);
      },
      onKeys: () => keys.check(),
      onProviders: () => ground.providers.check(),
      onMcp: () => agents.approvals.check(),
      onGranted: ({ server, ...owner }) => agents.mcp.authorized(server, owner),
      onLeft: () => housekeeping.lookForRuns(),
    });

    const stopped = new AbortController();
    const desk = new KeyDesk({
      ...options,
      db,
      pepper,
      notify: config.database.notify,
      onChange: () => keys.check(),
    });
    const providerDesk = new ProviderDesk({
      ...options,
      db,
      key: ground.masterKey,
      pepper,
      notify: config.database.notify,
      onChange: () => ground.providers.check(),
    });
    const isStopping = () => stopping;
    const common = { ground, gateway, agents, policyOf, isStopping, stopped: stopped.signal };
    const lookup = async (lookupId: string) =>
      keys.learn(await readKeyByLookup(db, lookupId), lookupId);
    const authenticate = createAuthenticate({
      snapshot: () => keys.current,
      lookup,
      isHashOf: (token, hash) => pepper.isHashOf(token, hash),
      isSignatureOf: (payload, signature) => pepper.isSignatureOf(payload, signature),
      clock,
      local: options.local,
    });
    const onKeys = keys.onChange.bind(keys);
    onKeys(({ ended }) => {
      if (ended.length > 0) housekeeping.lookForEndedKeys();
    });
    const mcpServer = openMcpServer(options, { ...common, closing, authenticate, onKeys });
    const parts = {
      ...common,
      desk,
      providerDesk,
      mcpServer,
      mcpAuthorize: oauth.authorize,
      browserTokens: {
        pepper,
        findKey: async (lookupId: string) =>
          keys.current?.byLookupId.get(lookupId) ?? await lookup(lookupId),
      },
    };
    const app = createApp({
      routes: createRoutes(options, parts),
      authenticate,
      hosts: createHostPolicy({
        boundHost: config.server.host,
        trustedHosts: config.server.trustedHosts,
      }),
      cors: {
        origins: config.server.cors?.origins ?? [],
        own: ownOrigins(config.server),
      },
      ids,
      clock,
      log,
      maxBodyBytes: config.server.maxBodyBytes,
      admission: gateway.admission,
      onKeysEnded: (listener) => onKeys(({ ended }) => listener(ended)),
      observe({ route, method, status, durationMs, overheadMs }) {
        metrics.request({ route, method, status, durationMs });
        metrics.overhead(overheadMs);
      },
      tracing: ground.tracing,
      onStream: metrics.openStreams,
      info: { title: "Loophub", version: VERSION },
    });
    return {
      app,
      databaseUrl: postgres.url,
      dataDir: postgres.dataDir,
      async makeFirstKey() {
        const token = await issueFirstKey(db, { ...options, pepper });
        if (token !== null) await keys.refresh();
        return token;
      },
      models: gateway.live.models.map((model) => model.id),
      start,
      mcp: agents.mcp,
      findAgent,
      follow: { db, live, wakeups: fanOut.wakeups },
      onClaimable: agents.onClaimable,
      mcpServer: mcpServer.protocol,
      databaseLost: postgres.lost,
      reload(next) {
        const take = async () => {
          for (const secret of next.secrets) options.addSecret(secret);
          await agents.prepare(next.config);
          gateway.live.reload(next);
        };
        reloading = reloading.then(take, take);
        return reloading;
      },
      async leave() {
        stopping = true;
        mustLeaveRuns = true;
        await sleep(clock, config.server.shutdownDelayMs);
      },
      async close() {
        await closing.close();
        return gateway.unwritten();
      },
      listen() {
        const reusePort = options.worker !== undefined;
        const port = openPort({
          app,
          server: config.server,
          reusePort,
          isLeaving: isStopping,
          clock,
          log,
        });
        closing.add("listener", () => {
          port.stopListening();
          stopped.abort();
          fanOut.wakeups.wakeAll();
        });
        closing.add("server", () => port.drain());
        agents.mcp.start();
        return port.server;
      },
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
