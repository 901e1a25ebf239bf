import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Usage } from "../core/usage.ts";
import type { Database } from "./database.ts";
import type { RunKey } from "./runs.ts";

/** Deepest that is looked: further down no run is ever begun. */
const MAX_LEVELS = 8;
/** What is read at a time of runs that nobody waits for. */
const DESERTED = 100;

/** The agents of a run and of the runs above it, itself first. */
export async function readLineage(db: Database, key: RunKey): Promise<string[]> {
  const rows = await db.within(db.read<{ agent: string }[]>`
    with recursive line as (
      select run_id, parent_run_id, agent, 0 as level from hub.runs
      where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)}
      union all
      select r.run_id, r.parent_run_id, r.agent, l.level + 1 from line l
      join hub.runs r on r.tenant_id = ${key.tenantId} and r.run_id = l.parent_run_id
      where l.level < ${MAX_LEVELS}
    ) select agent from line order by level`);
  return rows.map(({ agent }) => agent);
}

/** The runs below a run that are not over, on every level. */
export async function listOpenSubRuns(db: Database, key: RunKey): Promise<string[]> {
  const rows = await db.within(db.read<{ run_id: string }[]>`
    with recursive below as (
      select run_id, status, 1 as level from hub.runs
      where tenant_id = ${key.tenantId} and parent_run_id = ${toUuid(key.runId as Id)}
      union all
      select r.run_id, r.status, b.level + 1 from below b
      join hub.runs r on r.tenant_id = ${key.tenantId} and r.parent_run_id = b.run_id
      where b.level < ${MAX_LEVELS}
    ) select run_id from below where status in ('queued', 'running', 'waiting') order by run_id`);
  return rows.map(({ run_id }) => fromUuid("run", run_id));
}

/**
 * Runs of all tenants that go on though the call that has begun them is over, or its run is: nobody waits for them, and
 * nobody has asked them to stop.
 */
export async function listDesertedSubRuns(db: Database): Promise<RunKey[]> {
  const rows = await db.within(db.read<{ tenant_id: string; run_id: string }[]>`
    select c.tenant_id, c.run_id from hub.runs c
    left join hub.runs p on p.tenant_id = c.tenant_id and p.run_id = c.parent_run_id
    where c.parent_run_id is not null and c.status in ('queued', 'running', 'waiting')
      and c.cancel_requested_at is null
      and (p.run_id is null or p.finished_at is not null or exists (
        select 1 from hub.tool_calls t
        where t.tenant_id = c.tenant_id and t.run_id = c.parent_run_id and t.finished_at is not null
          and 'call_' || replace(t.tool_call_id::text, '-', '') = c.parent_call_id))
    order by c.run_id limit ${DESERTED}`);
  return rows.map((row) => ({ tenantId: row.tenant_id, runId: fromUuid("run", row.run_id) }));
}

/**
 * Where words of others come from that the session's runs may have read: by calls that began in them, in runs above them,
 * which have told them what to do, with their sessions, and in all runs below; and what any of these was begun with. Sorted.
 * Calls of the step that is judged, if it is given, do not count: no model has read their results when it made that step's
 * calls.
 */
export async function readOutsideSources(
  db: Database,
  { tenantId, sessionId, runId, step }: RunKey & { sessionId: string; step?: number },
): Promise<string[]> {
  const rows = await db.within(db.control<{ outside: string }[]>`
    with recursive above as (
      select session_id, parent_run_id, 0 as level from hub.runs
      where tenant_id = ${tenantId} and session_id = ${toUuid(sessionId as Id)}
      union
      select r.session_id, r.parent_run_id, a.level + 1 from above a
      join hub.runs r on r.tenant_id = ${tenantId} and r.run_id = a.parent_run_id
      where a.level < ${MAX_LEVELS}
    ), tree as (
      select run_id, 0 as level from hub.runs
      where tenant_id = ${tenantId} and session_id in (select session_id from above)
      union
      select r.run_id, t.level + 1 from tree t
      join hub.runs r on r.tenant_id = ${tenantId} and r.parent_run_id = t.run_id
      where t.level < ${MAX_LEVELS}
    )
    ${sourcesOf(db.control, { tenantId, runId, step })} order by outside`);
  return rows.map(({ outside }) => outside);
}

/**
 * Writes down for a run where words of others come from that a run below it may have read, with all runs below that: what it
 * answers may hold them, and it may be deleted before the run that has asked it.
 */
export async function keepOutsideSources(
  db: Database,
  { tenantId, runId, from }: RunKey & { from: string },
): Promise<void> {
  const sql = db.control;
  await db.within(sql`
    with recursive tree as (
      select run_id, 0 as level from hub.runs
      where tenant_id = ${tenantId} and run_id = ${toUuid(from as Id)}
      union
      select r.run_id, t.level + 1 from tree t
      join hub.runs r on r.tenant_id = ${tenantId} and r.parent_run_id = t.run_id
      where t.level < ${MAX_LEVELS}
    ), found as (
      select jsonb_agg(outside) as sources from (${sourcesOf(sql, { tenantId, runId })}) s
    )
    update hub.runs r set outside = r.outside || f.sources from found f
    where r.tenant_id = ${tenantId} and r.run_id = ${toUuid(runId as Id)}
      and not r.outside @> f.sources`);
}

/** Of the runs in the common table expression `tree`: the sources of calls that began, and what they have beside these. Calls of one step of a run are left out. */
function sourcesOf(
  sql: Database["control"],
  { tenantId, runId, step }: RunKey & { step?: number | undefined },
) {
  return sql`
    select c.outside from hub.tool_calls c
    where c.tenant_id = ${tenantId} and c.run_id in (select run_id from tree)
      and c.outside is not null and c.started_at is not null
      ${
    step === undefined
      ? sql``
      : sql`and not (c.run_id = ${toUuid(runId as Id)} and c.step = ${step})`
  }
    union
    select jsonb_array_elements_text(r.outside) from hub.runs r
    where r.tenant_id = ${tenantId} and r.run_id in (select run_id from tree)`;
}

/** The run with a question, of this one and those below it; null when none of them has it. */
export async function findAskingRun(
  db: Database,
  { approvalId, ...key }: RunKey & { approvalId: string },
): Promise<string | null> {
  const rows = await db.within(db.read<{ run_id: string }[]>`
    with recursive line as (
      select r.run_id, r.parent_run_id, 0 as level from hub.approvals a
      join hub.runs r on r.tenant_id = a.tenant_id and r.run_id = a.run_id
      where a.tenant_id = ${key.tenantId} and a.approval_id = ${toUuid(approvalId as Id)}
      union all
      select r.run_id, r.parent_run_id, l.level + 1 from line l
      join hub.runs r on r.tenant_id = ${key.tenantId} and r.run_id = l.parent_run_id
      where l.level < ${MAX_LEVELS}
    ) select (select run_id from line where level = 0) as run_id from line
      where run_id = ${toUuid(key.runId as Id)}`);
  const found = rows[0];
  return found === undefined ? null : fromUuid("run", found.run_id);
}

/** What a run has used up at its end, with its steps and those of the runs below it. */
export async function readRunSpent(
  db: Database,
  key: RunKey,
): Promise<{ usage: Usage; costMicros: number | null; steps: number } | null> {
  const rows = await db.within(db.read<SpentRow[]>`
    with recursive below as (
      select run_id, 0 as level from hub.runs
      where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)}
      union all
      select r.run_id, b.level + 1 from below b
      join hub.runs r on r.tenant_id = ${key.tenantId} and r.parent_run_id = b.run_id
      where b.level < ${MAX_LEVELS}
    )
    select r.prompt_tokens::float8 as "promptTokens", r.completion_tokens::float8 as "completionTokens",
      r.total_tokens::float8 as "totalTokens", r.cached_tokens::float8 as "cachedTokens",
      r.reasoning_tokens::float8 as "reasoningTokens", r.cost_micros::float8 as "costMicros",
      (select count(*)::int from hub.steps s join below b on b.run_id = s.run_id
        where s.tenant_id = r.tenant_id) as steps
    from hub.runs r where r.tenant_id = ${key.tenantId} and r.run_id = ${toUuid(key.runId as Id)}`);
  const row = rows[0];
  if (row === undefined) return null;
  const { costMicros, steps, ...usage } = row;
  return { usage, costMicros, steps };
}

interface SpentRow extends Usage {
  costMicros: number | null;
  steps: number;
}
