import type { Json } from "../core/json.ts";
import { type Catalogue, configHash, type Pins } from "../mcp/catalogue.ts";
import { McpServers } from "../mcp/mcp_servers.ts";
import type { McpAuth } from "../mcp/oauth/auth_provider.ts";
import type { McpContent } from "../mcp/read_content.ts";
import type { McpTool } from "../mcp/read_tools.ts";
import { ServerTraces } from "../mcp/server_trace.ts";
import { foreignParameters, foreignValidator } from "../operations/foreign_schema.ts";
import { McpAudit } from "../run/mcp_audit.ts";
import { readMcpCatalogues, saveMcpCatalogue } from "../store/mcp_catalogues.ts";
import { DEFAULT_TENANT_ID } from "../store/tenant.ts";
import type { Closing } from "./closing.ts";
import type { Ground } from "./ground.ts";
import type { HubOptions } from "./hub_options.ts";

/** Joins the configured MCP servers with what the database knows of them. Connects to none. */
export async function openMcp(
  options: HubOptions & { auth: McpAuth },
  { ground: { db, metrics }, closing }: { ground: Ground; closing: Closing },
): Promise<McpServers> {
  const { loaded: { config: { mcpServers } }, clock, ids, log } = options;
  const tenantId = DEFAULT_TENANT_ID;
  const hashes = new Map(
    Object.entries(mcpServers).map(([name, server]) => [name, configHash(server)]),
  );
  const seeds = new Map<string, Catalogue>();
  if (hashes.size > 0) {
    for (const stored of await readMcpCatalogues(db, tenantId)) {
      if (hashes.get(stored.server) !== stored.configHash) continue;
      const { tools, instructions, pins, content } = stored;
      seeds.set(stored.server, {
        tools: tools as unknown as McpTool[],
        instructions,
        pins: pins as Pins | null,
        content: content as unknown as McpContent | null,
      });
    }
  }
  /** One after the other for each server: the last list that came is the one that stays. */
  const saving = new Map<string, Promise<void>>();
  const traces = new ServerTraces(mcpServers, {
    wanted: options.env("LOOPHUB_MCP_TRACE"),
    now: clock.now,
    redact: options.redact,
  });
  const audit = new McpAudit({ db, clock, log });
  const mcp = new McpServers({
    ...options,
    traces,
    servers: mcpServers,
    seeds,
    schemas: { parametersOf: foreignParameters, validatorOf: foreignValidator },
    observe(fact) {
      metrics.mcp.call(fact);
      const { principal: { tenantId, keyId }, ...call } = fact;
      audit.add({ ...call, tenantId, keyId, callId: ids.next("aud") });
    },
    keep(server, { tools, instructions, pins, content }) {
      const catalogue = {
        tenantId,
        server,
        configHash: hashes.get(server) ?? "",
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
  closing.add("mcp servers", async () => {
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
  return mcp;
}
