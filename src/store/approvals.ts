import type { ApprovalTier, Remember } from "../core/approval.ts";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Json } from "../core/json.ts";
import { type AgreedStep, readAgreed } from "../core/preflight.ts";
import type { ToolPreview, ToolRisk } from "../core/tool.ts";
import { grantFrom, type NewGrant } from "./approval_grants.ts";
import { type AskedRow, askedState, readAsked } from "./asked_rows.ts";
import type { Database } from "./database.ts";
import type { RunKey } from "./runs.ts";

/** A question to a person whether a call may run, with its answer. Times are RFC 3339. */
export interface StoredApproval {
  approvalId: string;
  runId: string;
  toolCallId: string;
  toolName: string;
  input: Json;
  argsHash: string;
  defHash: string;
  risk: ToolRisk;
  tier: ApprovalTier;
  /** What was shown beside the arguments, and the state that it was made from. */
  preview: ToolPreview | null;
  shownState: string | null;
  /** Where the run had read what others wrote, when that was why. */
  tainted: string[];
  state: ApprovalState;
  reason: string | null;
  /** How far an approval reaches; null for any other answer. */
  remember: Remember | null;
  /** The key that answered; null when nobody did, or the command line. */
  decidedBy: string | null;
  createdAt: string;
  expiresAt: string;
  decidedAt: string | null;
  /** What was shown of the plan that the call proposes; null for any other call. */
  plan: Json;
  /** What somebody has made of it; null when it was left as it is. */
  answer: Json;
}

/** `expired`: nobody answered in time. `cancelled`: the run ended before somebody did. */
export type ApprovalState = "pending" | "approved" | "denied" | "expired" | "cancelled";

/** Which question. */
export interface ApprovalKey extends RunKey {
  approvalId: string;
}

/** What becomes of a question. */
export type ApprovalAnswer =
  | {
    state: "approved" | "denied";
    reason: string | null;
    decidedBy: string | null;
    /** What an approval holds for beside its call. */
    grant: NewGrant | null;
    /** The steps of a plan as they were agreed on; left out where nobody has changed them. */
    answer?: Json;
  }
  | { state: "expired" };

/** What is read at a time of questions that nobody has answered in time. */
const DUE = 100;

type Row = Omit<StoredApproval, keyof AskedRow> & AskedRow;

/**
 * Answers a question, if nobody has, its time is not over and its run may go on; true when it was this that did. The run's
 * row is locked first, as it is by whoever stops it or lets it wait, and one that waits is anybody's then. By Postgres'
 * clock alone a question can be answered, or has expired. What an approval holds for besides is written with it.
 */
export async function answerApproval(
  db: Database,
  key: ApprovalKey,
  answer: ApprovalAnswer,
): Promise<boolean> {
  const { tenantId } = key;
  const sql = db.control;
  const { reason, decidedBy, grant } = answer.state === "expired"
    ? { reason: null, decidedBy: null, grant: null }
    : answer;
  const remember = answer.state === "approved" ? grant?.remember ?? "once" : null;
  const changed = answer.state === "expired" ? null : answer.answer ?? null;
  const inTime = answer.state === "expired"
    ? sql`a.expires_at <= now()`
    : sql`a.expires_at > now()`;
  const rows = await db.within(sql<{ decided: boolean }[]>`
    with locked as materialized (
      select r.run_id from hub.runs r
      where r.tenant_id = ${tenantId} and r.run_id = ${toUuid(key.runId as Id)}
        and r.status in ('queued', 'running', 'waiting') and r.cancel_requested_at is null
      for update
    ), decided as (
      update hub.approvals a set state = ${answer.state}, reason = ${reason}::text,
        remember = ${remember}::text, decided_by = ${
    decidedBy === null ? null : toUuid(decidedBy as Id)
  }::uuid, decided_at = now(), answer = ${changed === null ? null : sql.json(changed)}::jsonb
      from locked l
      where a.tenant_id = ${tenantId} and a.approval_id = ${toUuid(key.approvalId as Id)}
        and a.run_id = l.run_id and a.state = 'pending' and ${inTime}
      returning a.run_id, a.approval_id, a.tool_name, a.def_hash, a.tainted
    ), granted as (
      ${grantFrom(sql, { tenantId, decidedBy, grant })}
    ), woken as (
      update hub.runs r set decision_count = r.decision_count + 1,
        status = case when r.status = 'waiting' then 'queued' else r.status end
      from decided d
      where r.tenant_id = ${tenantId} and r.run_id = d.run_id
    )
    select exists (select 1 from decided) as decided`);
  return rows[0]?.decided === true;
}

/** Questions of runs that may go on whose time is over, of all tenants. */
export async function listDueApprovals(db: Database): Promise<ApprovalKey[]> {
  const rows = await db.within(db.read<
    { tenant_id: string; run_id: string; approval_id: string }[]
  >`
    select a.tenant_id, a.run_id, a.approval_id from hub.approvals a
    join hub.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
    where a.state = 'pending' and a.expires_at <= now()
      and r.status in ('queued', 'running', 'waiting') and r.cancel_requested_at is null
    order by a.expires_at limit ${DUE}`);
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    runId: fromUuid("run", row.run_id),
    approvalId: fromUuid("apr", row.approval_id),
  }));
}

/** The run's questions in the order in which they were asked. */
export async function listRunApprovals(db: Database, key: RunKey): Promise<StoredApproval[]> {
  return await readApprovals(db, key.tenantId, {
    where: db.read`and a.run_id = ${toUuid(key.runId as Id)}`,
    order: db.read`order by a.approval_id`,
  });
}

/** One question of a run; null when it has none of that id. */
export async function readApproval(
  db: Database,
  { tenantId, runId, approvalId }: ApprovalKey,
): Promise<StoredApproval | null> {
  const found = await readApprovals(db, tenantId, {
    where: db.read`and a.run_id = ${toUuid(runId as Id)}
      and a.approval_id = ${toUuid(approvalId as Id)}`,
    order: db.read``,
  });
  return found[0] ?? null;
}

/** The last plan that a run has proposed to a person; null when it has proposed none. */
export async function readLastPlan(db: Database, key: RunKey): Promise<StoredApproval | null> {
  const found = await readApprovals(db, key.tenantId, {
    where: db.read`and a.run_id = ${toUuid(key.runId as Id)} and a.plan is not null`,
    order: db.read`order by a.approval_id desc limit 1`,
  });
  return found[0] ?? null;
}

/** What a person has made of the plan of a call; null when nobody was asked, or has answered. */
export async function readPlanAnswer(
  db: Database,
  { toolCallId, ...key }: RunKey & { toolCallId: string },
): Promise<{ steps: AgreedStep[] | null; reason: string | null } | null> {
  const [found] = await readApprovals(db, key.tenantId, {
    where: db.read`and a.run_id = ${toUuid(key.runId as Id)}
      and a.tool_call_id = ${toUuid(toolCallId as Id)} and a.state = 'approved'`,
    order: db.read`order by a.approval_id desc limit 1`,
  });
  if (found === undefined) return null;
  return { steps: found.answer === null ? null : readAgreed(found.answer), reason: found.reason };
}

/** A page of a tenant's questions, the newest first; of one state alone, when it is given. Ids are in the order of time. */
export async function listApprovals(
  db: Database,
  { tenantId, state, limit, after }: {
    tenantId: string;
    state: ApprovalState | null;
    limit: number;
    after: string | null;
  },
): Promise<{ approvals: StoredApproval[]; nextCursor: string | null }> {
  const sql = db.read;
  const found = await readApprovals(db, tenantId, {
    where: sql`
      ${state === null ? sql`` : sql`and ${askedState(db)} = ${state}`}
      ${after === null ? sql`` : sql`and a.approval_id < ${toUuid(after as Id)}::uuid`}`,
    order: sql`order by a.approval_id desc limit ${limit + 1}`,
  });
  const approvals = found.slice(0, limit);
  const nextCursor = found.length > limit ? approvals.at(-1)?.approvalId ?? null : null;
  return { approvals, nextCursor };
}

type Fragment = ReturnType<typeof askedState>;

async function readApprovals(
  db: Database,
  tenantId: string,
  { where, order }: { where: Fragment; order: Fragment },
): Promise<StoredApproval[]> {
  const rows = await db.within(db.read<Row[]>`
    select a.approval_id as "approvalId", a.run_id as "runId", a.tool_call_id as "toolCallId",
      a.tool_name as "toolName", c.input, a.args_hash as "argsHash", a.def_hash as "defHash", a.risk, a.tier,
      a.preview, a.shown_state as "shownState", coalesce(a.tainted, '[]') as tainted,
      ${
    askedState(db)
  } as state, a.reason, a.remember, a.decided_by as "decidedBy", a.created_at as "createdAt",
      a.expires_at as "expiresAt", a.decided_at as "decidedAt", a.plan, a.answer
    from hub.approvals a
    join hub.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
    join hub.tool_calls c on c.tenant_id = a.tenant_id and c.run_id = a.run_id
      and c.tool_call_id = a.tool_call_id
    where a.tenant_id = ${tenantId} ${where} ${order}`);
  return rows.map((row) => ({
    ...readAsked(row),
    approvalId: fromUuid("apr", row.approvalId),
  }));
}
