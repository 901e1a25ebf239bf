import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { Database } from "./database.ts";

/** What somebody did to the hub's keys. Rows are only ever added. */
export interface AuditRow {
  id: string;
  actorKeyId: string | null;
  action: string;
  subject: string;
  details: JsonObject;
  at: number;
}

interface Row {
  audit_id: string;
  actor_key_id: string | null;
  action: string;
  subject: string;
  details: JsonObject;
  at: Date;
}

/** A page of a tenant's audit, the newest first. Ids are in the order of time. */
export async function listAudit(
  db: Database,
  { tenantId, limit, after }: { tenantId: string; limit: number; after: string | null },
): Promise<{ rows: AuditRow[]; nextCursor: string | null }> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select audit_id, actor_key_id, action, subject, details, at from hub.audit
    where tenant_id = ${tenantId}
    ${after === null ? sql`` : sql`and audit_id < ${toUuid(after as Id)}::uuid`}
    order by audit_id desc limit ${limit + 1}`);
  const page = rows.slice(0, limit).map((row): AuditRow => ({
    id: fromUuid("aud", row.audit_id),
    actorKeyId: row.actor_key_id === null ? null : fromUuid("key", row.actor_key_id),
    action: row.action,
    subject: row.subject,
    details: row.details,
    at: row.at.getTime(),
  }));
  return { rows: page, nextCursor: rows.length > limit ? page.at(-1)?.id ?? null : null };
}
