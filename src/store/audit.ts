import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { Database } from "./database.ts";

/** Who did what. */
export interface AuditEntry {
  auditId: string;
  /** Null for the command line. */
  actorKeyId: string | null;
  action: string;
  details: JsonObject;
}

/** What somebody did to the hub's keys and providers. Rows are only ever added. */
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

const SUBJECTS = {
  key: { prefix: "key", id: "key_id" },
  client: { prefix: "cli", id: "client_id" },
  approval_grant: { prefix: "grt", id: "grant_id" },
} as const;

/** Writes an audit row for each key, provider or grant of a common table expression; rows of `hub.audit` are never changed. */
export function noteFrom(
  sql: Database["control"],
  source: keyof typeof SUBJECTS,
  { tenantId, audit }: { tenantId: string; audit: AuditEntry | undefined },
) {
  if (audit === undefined) return sql`select 1`;
  const actor = audit.actorKeyId === null ? null : toUuid(audit.actorKeyId as Id);
  const { prefix, id } = SUBJECTS[source];
  return sql`
    insert into hub.audit (tenant_id, audit_id, actor_key_id, action, subject, details)
    select ${tenantId}::uuid, ${toUuid(audit.auditId as Id)}::uuid, ${actor}::uuid, ${audit.action},
      hub.public_id(${prefix}, ${sql(id)}), ${sql.json(audit.details)}::jsonb
    from ${sql(source)}`;
}

/** Writes an audit row for what was done to no single key or provider. */
export async function writeAudit(
  db: Database,
  { tenantId, audit, subject }: { tenantId: string; audit: AuditEntry; subject: string },
): Promise<void> {
  const { auditId, actorKeyId, action, details } = audit;
  const actor = actorKeyId === null ? null : toUuid(actorKeyId as Id);
  await db.within(db.control`
    insert into hub.audit (tenant_id, audit_id, actor_key_id, action, subject, details)
    values (${tenantId}, ${toUuid(auditId as Id)}, ${actor}, ${action}, ${subject},
      ${db.control.json(details)})`);
}
