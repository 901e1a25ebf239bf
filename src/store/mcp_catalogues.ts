import type { Json, JsonObject } from "../core/json.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";
import type { Database } from "./database.ts";

/** What an MCP server listed last. */
export interface StoredCatalogue {
  server: string;
  /** Tells how the server was reached. */
  configHash: string;
  tools: Json;
  instructions: string;
  /** Hash of each tool's definition that counts; null for servers that are trusted. */
  pins: Json;
  /** What it has beside tools; null where that is not known. */
  content: Json;
}

/** All that is known of servers from before. */
export async function readMcpCatalogues(
  db: Database,
  tenantId: string,
): Promise<StoredCatalogue[]> {
  return await db.within(db.read<StoredCatalogue[]>`
    select server, config_hash as "configHash", tools, instructions, pins, content
    from hub.mcp_catalogues where tenant_id = ${tenantId}`);
}

/** Lets definitions of a server's tools count, beside those that do. */
export async function addMcpPins(
  db: Database,
  { tenantId, server, configHash, pins }: {
    tenantId: string;
    server: string;
    configHash: string;
    pins: JsonObject;
  },
): Promise<void> {
  await db.within(db.control`
    update hub.mcp_catalogues set pins = coalesce(pins, '{}'::jsonb) || ${
    db.control.json(wellFormedJson(pins))
  }::jsonb
    where tenant_id = ${tenantId} and server = ${server} and config_hash = ${configHash}`);
}

/** Keeps what a server listed, in the place of what it listed before; what counts of it stays, once that is known. */
export async function saveMcpCatalogue(
  db: Database,
  { tenantId, nowMs, ...catalogue }: StoredCatalogue & { tenantId: string; nowMs: number },
): Promise<void> {
  const { server, configHash, instructions } = catalogue;
  const tools = db.control.json(wellFormedJson(catalogue.tools));
  const toValue = (value: Json) => value === null ? null : db.control.json(wellFormedJson(value));
  const pins = toValue(catalogue.pins);
  const content = toValue(catalogue.content);
  await db.within(db.control`
    insert into hub.mcp_catalogues
      (tenant_id, server, config_hash, tools, instructions, pins, content, listed_at)
    values (${tenantId}, ${server}, ${configHash}, ${tools}, ${wellFormedText(instructions)},
      ${pins}, ${content}, ${new Date(nowMs)})
    on conflict (tenant_id, server) do update set config_hash = excluded.config_hash,
      tools = excluded.tools, instructions = excluded.instructions,
      pins = case when mcp_catalogues.config_hash = excluded.config_hash and excluded.pins is not null
        then coalesce(mcp_catalogues.pins, excluded.pins) else excluded.pins end,
      content = excluded.content, listed_at = excluded.listed_at`);
}
