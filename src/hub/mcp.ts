import { join } from "node:path";
import type { ResolvedConfig } from "../config/load.ts";
import { HubError } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import type { Sampler } from "../core/sampling.ts";
import { type Catalogue, configHash, type Pins } from "../mcp/catalogue.ts";
import type { OwnedPlace } from "../mcp/connection_maker.ts";
import { McpServers } from "../mcp/mcp_servers.ts";
import type { McpAuth } from "../mcp/oauth/auth_provider.ts";
import type { McpContent } from "../mcp/read_content.ts";
import type { McpTool } from "../mcp/read_tools.ts";
import { ServerTraces } from "../mcp/server_trace.ts";
import { foreignParameters, foreignValidator } from "../operations/foreign_schema.ts";
import { Isolation } from "../process/isolate.ts";
import { McpAudit } from "../run/mcp_audit.ts";
import type { Database } from "../store/database.ts";
import { readMcpCatalogues, saveMcpCatalogue } from "../store/mcp_catalogues.ts";
import { pinFirst, readOwnerPins } from "../store/mcp_owner_pins.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import type { Closing } from "./closing.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";
import { programPath, workspacesOf } from "./workspace_tools.ts";

/** MCP servers that follow the configuration. */
export interface McpPart {
  mcp: McpServers;
  /** Takes over other servers, soon. */
  use(servers: Servers): void;
  /** Resolves when those are there that were to be taken over by now. Never rejects. */
  taken(): Promise<void>;
}

type Servers = ResolvedConfig["mcpServers"];

/** Joins the configured MCP servers with what the database knows of them. Connects to none. */
export async function openMcp(
  options: HubOptions & { auth: McpAuth; sample: Sampler },
  { ground: { db, metrics, postgres: { dataDir } }, closing }: { ground: Ground; closing: Closing },
): Promise<McpPart> {
  const { loaded: { config: { mcpServers } }, clock, ids, log } = options;
  const tenantId = DEFAULT_TENANT_ID;
  const seeds = await readSeeds(db, mcpServers);
  /** One after the other for each server: the last list that came is the one that stays. */
  const saving = new Map<string, Promise<void>>();
  const traces = new ServerTraces(mcpServers, {
    wanted: options.env("LOOPHUB_MCP_TRACE"),
    now: clock.now,
    redact: options.redact,
  });
  const isolation = await openIsolation(options, join(dataDir, "master.key"));
  const audit = new McpAudit({ db, clock, log });
  const placeOf = ({ tenantId, owner, name, server }: OwnedPlace) => (
    { tenantId, owner, server: name, configHash: configHash(server) }
  );
  const mcp = new McpServers({
    ...options,
    ownerPins: {
      read: async (place) => await readOwnerPins(db, placeOf(place)) as Pins | null,
      first: async (place, pins) =>
        await pinFirst(db, { ...placeOf(place), pins: { ...pins } }) as Pins,
    },
    traces,
    isolation,
    servers: mcpServers,
    seeds,
    schemas: { parametersOf: foreignParameters, validatorOf: foreignValidator },
    observe(fact) {
      metrics.mcp.call(fact);
      const { principal: { tenantId, keyId }, ...call } = fact;
      audit.add({ ...call, tenantId, keyId, callId: ids.next("aud") });
    },
    keep(server, { tools, instructions, pins, content }, settings) {
      const catalogue = {
        tenantId,
        server,
        configHash: configHash(settings),
        tools: tools.map((tool) => ({ ...tool })),
        instructions,
        pins: pins === null ? null : { ...pins },
        content: content as unknown as Json,
        nowMs: clock.now(),
      };
      const save = () =>
        saveMcpCatalogue(db, catalogue).catch((error: unknown) =>
          log.warn("The tools of an MCP server could not be kept for the next start", {
            server,
            error,
          })
        );
      saving.set(server, (saving.get(server) ?? Promise.resolve()).then(save));
    },
  });
  let isClosed = false;
  let turn = Promise.resolve();
  closing.add("mcp servers", async () => {
    isClosed = true;
    await turn;
    await mcp.close();
    await audit.close();
    await Promise.all(saving.values());
  });
  metrics.mcp.servers(() =>
    mcp.connections.map(({ name, state, listing }) => ({
      server: name,
      state: state.kind,
      tools: listing?.tools.length ?? 0,
    }))
  );
  let last: Servers = mcpServers;
  const take = async (servers: Servers) => {
    const seeds = await readSeeds(db, servers).catch((error: unknown) => {
      log.warn("What MCP servers listed before was not read", { error });
      return new Map<string, Catalogue>();
    });
    mcp.use({ servers, seeds });
  };
  return {
    mcp,
    use(servers) {
      if (JSON.stringify(servers) === JSON.stringify(last)) return;
      last = servers;
      turn = turn.then(() => isClosed ? undefined : take(servers));
    },
    taken: () => turn,
  };
}

/**
 * How programs of servers are kept from reading the hub's processes. It is tried at once where one is configured, so that
 * a start that cannot do it says so; only a required sandbox is waited for.
 */
async function openIsolation(options: HubOptions, masterKeyFile: string): Promise<Isolation> {
  const { loaded: { config }, clock, log, env } = options;
  const isolation = new Isolation({
    path: programPath(workspacesOf(config), env),
    hiddenFile: env("LOOPHUB_MASTER_KEY") === undefined ? masterKeyFile : null,
    clock,
    onMissing: (reason) =>
      log.warn(
        "Programs of MCP servers run without a sandbox: they can read the environment of the hub's processes",
        { reason },
      ),
  });
  const wishes = Object.values(config.mcpServers)
    .filter(({ transport, enabled }) => transport === "stdio" && enabled)
    .map(({ sandbox }) => sandbox);
  if (wishes.some((sandbox) => sandbox !== "off")) void isolation.find();
  if (!wishes.includes("required")) return isolation;
  const found = await isolation.find();
  if (found.works) return isolation;
  throw new HubError(
    "invalid_configuration",
    `An MCP server wants a sandbox, and ${found.reason}: install bubblewrap, or set its sandbox to auto`,
  );
}

/** What is known from before of servers that are reached as they were then. */
async function readSeeds(db: Database, servers: Servers): Promise<Map<string, Catalogue>> {
  const seeds = new Map<string, Catalogue>();
  if (Object.keys(servers).length === 0) return seeds;
  for (const stored of await readMcpCatalogues(db, DEFAULT_TENANT_ID)) {
    const { server: name, tools, instructions, pins, content } = stored;
    const server = Object.hasOwn(servers, name) ? servers[name] : undefined;
    if (server === undefined || configHash(server) !== stored.configHash) continue;
    seeds.set(name, {
      tools: tools as unknown as McpTool[],
      instructions,
      pins: pins as Pins | null,
      content: content as unknown as McpContent | null,
    });
  }
  return seeds;
}
