import type { Database } from "./database.ts";
import type { MasterKey } from "./master_key.ts";
import { toSealed } from "./mcp_grants.ts";
import { openSecret, sealSecret } from "./secret_box.ts";

const TABLES = [
  { table: "hub.mcp_grants", field: "mcp_grant" },
  { table: "hub.mcp_registrations", field: "mcp_registration" },
] as const;

interface Row {
  server: string;
  owner: string;
  issuer: string;
  master_key_id: string;
  nonce: Uint8Array;
  ciphertext: Uint8Array;
}

/**
 * Seals again, with the newest master key, what former ones sealed of the hub's authorizations at MCP servers. `left`
 * says how many cannot be read. Those that were begun are over within minutes, and are left alone.
 */
export async function resealMcp(
  db: Database,
  { tenantId, key }: { tenantId: string; key: MasterKey },
): Promise<{ resealed: number; left: number }> {
  const tally = { resealed: 0, left: 0 };
  for (const { table, field } of TABLES) {
    const rows = await db.within(db.control<Row[]>`
      select server, owner, issuer, master_key_id, nonce, ciphertext from ${db.control(table)}
      where tenant_id = ${tenantId} and master_key_id <> ${key.id}`);
    for (const row of rows) {
      const { server, owner, issuer } = row;
      const place = { tenantId, id: JSON.stringify([server, owner, issuer]), field };
      const text = await openSecret(toSealed(row), { key, place }).catch(() => null);
      if (text === null) {
        tally.left++;
        continue;
      }
      const sealed = await sealSecret(text, { key, place });
      // One that was replaced meanwhile is of the newest key already.
      const done = await db.within(db.control<{ server: string }[]>`
        update ${
        db.control(table)
      } set master_key_id = ${sealed.masterKeyId}, nonce = ${sealed.nonce},
          ciphertext = ${sealed.ciphertext}
        where tenant_id = ${tenantId} and server = ${server} and owner = ${owner} and issuer = ${issuer}
          and nonce = ${row.nonce}
        returning server`);
      tally.resealed += done.length;
    }
  }
  return tally;
}
