import type { Remember } from "../core/approval.ts";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Access } from "../core/ownership.ts";
import { type AuditEntry, noteFrom } from "./audit.ts";
import type { Database } from "./database.ts";
import { isKeyReached } from "./ownership.ts";
import { pruneInBatches } from "./prune_batches.ts";

/** What an approval holds for beside its call. */
export interface NewGrant {
  grantId: string;
  remember: Exclude<Remember, "once">;
  /** How long; null for as long as nobody takes it back. */
  seconds: number | null;
}

/** An approval of later calls of one tool, as it was shown, in the runs of one key with one agent. Times are RFC 3339. */
export interface ApprovalGrant {
  grantId: string;
  keyId: string;
  agent: string;
  toolName: string;
  /** SHA-256, hex, of what the tool said of itself: it holds for no other. */
  defHash: string;
  /** Of the run at the top; null: in all sessions. */
  sessionId: string | null;
  /** Where its run had read what others wrote: it counts for runs that have read nothing else of others. */
  tainted: string[];
  /** The question that it answered. */
  approvalId: string;
  /** Null: the command line. */
  grantedBy: string | null;
  createdAt: string;
  /** Null: when somebody takes it back. */
  expiresAt: string | null;
}

interface Row extends Omit<ApprovalGrant, "createdAt" | "expiresAt"> {
  createdAt: Date;
  expiresAt: Date | null;
}

/** Stands for all sessions. */
const ANY_SESSION = "00000000-0000-0000-0000-000000000000";

const PRUNE_BATCH = 1000;

/** Deepest that is looked: further down no run is ever begun. */
const MAX_LEVELS = 8;

/**
 * Writes the grant of the approval in the common table expression `decided`; it takes the place of an earlier one. The session
 * of a run that an agent has asked for ends with its one call: what holds for it is held by the run at the top.
 */
export function grantFrom(
  sql: Database["control"],
  { tenantId, decidedBy, grant }: {
    tenantId: string;
    decidedBy: string | null;
    grant: NewGrant | null;
  },
) {
  if (grant === null) return sql`select 1`;
  const { grantId, remember, seconds } = grant;
  const isForSession = remember === "session";
  const by = decidedBy === null ? null : toUuid(decidedBy as Id);
  return sql`
    insert into hub.approval_grants as g (tenant_id, key_id, agent, tool_name, scope, grant_id, def_hash,
      session_id, approval_id, granted_by, tainted, expires_at)
    with recursive line as (
      select r.session_id, r.parent_run_id, 0 as level from decided d
      join hub.runs r on r.tenant_id = ${tenantId} and r.run_id = d.run_id
      union all
      select r.session_id, r.parent_run_id, l.level + 1 from line l
      join hub.runs r on r.tenant_id = ${tenantId} and r.run_id = l.parent_run_id
      where l.level < ${MAX_LEVELS}
    ), top as (select session_id from line order by level desc limit 1)
    select ${tenantId}::uuid, coalesce(r.key_id, s.key_id), r.agent, d.tool_name,
      ${isForSession ? sql`t.session_id` : sql`${ANY_SESSION}::uuid`}, ${
    toUuid(grantId as Id)
  }::uuid,
      d.def_hash, ${isForSession ? sql`t.session_id` : sql`null::uuid`}, d.approval_id, ${by}::uuid,
      coalesce(d.tainted::jsonb, '[]'), now() + ${seconds}::float8 * interval '1 second'
    from decided d cross join top t
    join hub.runs r on r.tenant_id = ${tenantId} and r.run_id = d.run_id
    join hub.sessions s on s.tenant_id = r.tenant_id and s.session_id = r.session_id
    on conflict (tenant_id, key_id, agent, tool_name, scope) do update set grant_id = excluded.grant_id,
      def_hash = excluded.def_hash, approval_id = excluded.approval_id, granted_by = excluded.granted_by,
      tainted = excluded.tainted,      created_at = excluded.created_at, expires_at = excluded.expires_at`;
}

/** The grant by which a call may run; null when there is none that holds, by Postgres' clock. */
export async function findGrant(
  db: Database,
  call: {
    tenantId: string;
    keyId: string;
    agent: string;
    runId: string;
    toolName: string;
    defHash: string;
    /** Where the run has read what others wrote: a grant counts that was given in sight of it all. */
    tainted: readonly string[];
  },
): Promise<string | null> {
  const rows = await db.within(db.control<{ grant_id: string }[]>`
    with recursive line as (
      select session_id, parent_run_id, 0 as level from hub.runs
      where tenant_id = ${call.tenantId} and run_id = ${toUuid(call.runId as Id)}
      union all
      select r.session_id, r.parent_run_id, l.level + 1 from line l
      join hub.runs r on r.tenant_id = ${call.tenantId} and r.run_id = l.parent_run_id
      where l.level < ${MAX_LEVELS}
    )
    select grant_id from hub.approval_grants
    where tenant_id = ${call.tenantId} and key_id = ${toUuid(call.keyId as Id)}
      and agent = ${call.agent} and tool_name = ${call.toolName}
      and (scope = ${ANY_SESSION} or scope in (select session_id from line))
      and def_hash = ${call.defHash} and tainted @> ${
    db.control.json(call.tainted)
  }::jsonb and (expires_at is null or expires_at > now())
    limit 1`);
  return rows[0] === undefined ? null : fromUuid("grt", rows[0].grant_id);
}

/** A page of the grants that hold and that the caller reaches, the newest first. Ids are in the order of time. */
export async function listGrants(
  db: Database,
  { limit, after, ...access }: Access & { limit: number; after: string | null },
): Promise<{ grants: ApprovalGrant[]; nextCursor: string | null }> {
  const sql = db.read;
  const rows = await db.within(sql<Row[]>`
    select grant_id as "grantId", key_id as "keyId", agent, tool_name as "toolName", def_hash as "defHash",
      session_id as "sessionId", tainted, approval_id as "approvalId", granted_by as "grantedBy",
      created_at as "createdAt", expires_at as "expiresAt"
    from hub.approval_grants
    where tenant_id = ${access.tenantId} and (expires_at is null or expires_at > now())
      and ${isKeyReached(sql, access, sql`approval_grants.key_id`)}
      ${after === null ? sql`` : sql`and grant_id < ${toUuid(after as Id)}::uuid`}
    order by grant_id desc limit ${limit + 1}`);
  const grants = rows.slice(0, limit).map((row): ApprovalGrant => ({
    ...row,
    grantId: fromUuid("grt", row.grantId),
    keyId: fromUuid("key", row.keyId),
    sessionId: row.sessionId === null ? null : fromUuid("ses", row.sessionId),
    approvalId: fromUuid("apr", row.approvalId),
    grantedBy: row.grantedBy === null ? null : fromUuid("key", row.grantedBy),
    createdAt: row.createdAt.toISOString(),
    expiresAt: row.expiresAt?.toISOString() ?? null,
  }));
  const nextCursor = rows.length > limit ? grants.at(-1)?.grantId ?? null : null;
  return { grants, nextCursor };
}

/** Drops grants whose time is over. Gives how many there were. */
export async function pruneGrants(db: Database): Promise<number> {
  return await pruneInBatches(PRUNE_BATCH, () =>
    db.within(db.control`
      delete from hub.approval_grants where (tenant_id, grant_id) in (
        select tenant_id, grant_id from hub.approval_grants
        where expires_at <= now() limit ${PRUNE_BATCH})
        and expires_at <= now()
      returning 1 as one`));
}

/** Takes a grant back, with its row of audit; false when there was none of that id that the caller reaches. */
export async function removeGrant(
  db: Database,
  { grantId, audit, ...access }: Access & { grantId: string; audit: AuditEntry },
): Promise<boolean> {
  const sql = db.control;
  const rows = await db.within(sql<{ removed: boolean }[]>`
    with approval_grant as (
      delete from hub.approval_grants
      where tenant_id = ${access.tenantId} and grant_id = ${toUuid(grantId as Id)}
        and ${isKeyReached(sql, access, sql`approval_grants.key_id`)}
      returning grant_id
    ), noted as (
      ${noteFrom(sql, "approval_grant", { tenantId: access.tenantId, audit })}
    )
    select exists (select 1 from approval_grant) as removed`);
  return rows[0]?.removed === true;
}
