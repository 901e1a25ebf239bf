import type { JsonObject } from "../core/json.ts";
import { wellFormedJson } from "../core/well_formed.ts";
import type { Database } from "./database.ts";
import type { GrantOwner } from "./mcp_grants.ts";

/** Which definitions of a server's tools count for one owner. */
export interface OwnerPins extends GrantOwner {
  /** Tells how the server was reached. */
  configHash: string;
  /** Hash of each definition, by the tool's own name. */
  pins: JsonObject;
}

/** What counts for an owner at a server that is reached so; null where nothing was pinned yet. */
export async function readOwnerPins(
  db: Database,
  { tenantId, server, owner, configHash }: Omit<OwnerPins, "pins">,
): Promise<JsonObject | null> {
  const rows = await db.within(db.read<Pick<OwnerPins, "pins">[]>`
    select pins from hub.mcp_owner_pins
    where tenant_id = ${tenantId} and server = ${server} and owner = ${owner}
      and config_hash = ${configHash}`);
  return rows[0]?.pins ?? null;
}

/** What counts for these owners of a tenant, at all servers. */
export async function listOwnerPins(
  db: Database,
  { tenantId, owners }: { tenantId: string; owners: readonly string[] },
): Promise<OwnerPins[]> {
  const rows = await db.within(db.read<Omit<OwnerPins, "tenantId">[]>`
    select server, owner, config_hash as "configHash", pins from hub.mcp_owner_pins
    where tenant_id = ${tenantId} and owner in (
      select jsonb_array_elements_text(${db.read.json([...owners])}::jsonb))`);
  return rows.map((row) => ({ tenantId, ...row }));
}

/** Lets definitions count beside those that do; of a server that is reached in another way now, in their place. */
export async function addOwnerPins(
  db: Database,
  { tenantId, server, owner, configHash, pins }: OwnerPins,
): Promise<void> {
  const value = db.control.json(wellFormedJson(pins));
  await db.within(db.control`
    insert into hub.mcp_owner_pins (tenant_id, server, owner, config_hash, pins)
    values (${tenantId}, ${server}, ${owner}, ${configHash}, ${value}::jsonb)
    on conflict (tenant_id, server, owner) do update set config_hash = excluded.config_hash,
      pins = case when mcp_owner_pins.config_hash = excluded.config_hash
        then mcp_owner_pins.pins || excluded.pins else excluded.pins end`);
}

/** Pins what an owner's server listed first; what counts already stays. Gives what counts. */
export async function pinFirst(
  db: Database,
  { tenantId, server, owner, configHash, pins }: OwnerPins,
): Promise<JsonObject> {
  const value = db.control.json(wellFormedJson(pins));
  const rows = await db.within(db.control<Pick<OwnerPins, "pins">[]>`
    insert into hub.mcp_owner_pins (tenant_id, server, owner, config_hash, pins)
    values (${tenantId}, ${server}, ${owner}, ${configHash}, ${value}::jsonb)
    on conflict (tenant_id, server, owner) do update set config_hash = excluded.config_hash,
      pins = case when mcp_owner_pins.config_hash = excluded.config_hash
        then mcp_owner_pins.pins else excluded.pins end
    returning pins`);
  return rows[0]?.pins ?? pins;
}
