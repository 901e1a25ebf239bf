import { fromUuid, type Id, toUuid } from "../core/id.ts";
import { toStorableJson } from "../core/well_formed.ts";
import type { Database, Sql } from "./database.ts";
import type { RunKey } from "./runs.ts";
import type { BegunCall } from "./usage_rows.ts";

interface Row {
  facts: BegunCall;
}

/** Begun calls read at a time. */
const PAGE = 200;

/** Notes begun calls. Those that are there already stay as they are, and those that have their row are left out. */
export async function insertModelCalls(db: Database, calls: readonly BegunCall[]): Promise<void> {
  if (calls.length > 0) await db.within(modelCallInsert(db.control, calls));
}

/** The statement that does so, which may be a part of another one. */
export function modelCallInsert(sql: Sql, calls: readonly BegunCall[]) {
  const rows = calls.map((call) => ({
    t: call.row.tenantId,
    u: toUuid(call.row.usageId as Id),
    r: toUuid(call.row.runId as Id),
    e: call.epoch,
    s: call.row.step ?? null,
    f: call,
  })).sort((a, b) => a.u < b.u ? -1 : 1);
  return sql`
    insert into hub.model_calls (tenant_id, usage_id, run_id, epoch, step, facts)
    select t, u, r, e, s, f
    from jsonb_to_recordset(${
    toStorableJson(rows)
  }::text::jsonb) as call(t uuid, u uuid, r uuid, e bigint, s int, f jsonb)
    where not exists (select 1 from hub.usage where tenant_id = t and usage_id = u)
    on conflict (tenant_id, usage_id) do nothing`;
}

/** The run's begun calls of owners before this epoch, oldest first. */
export async function readModelCalls(
  db: Database,
  { tenantId, runId, epoch }: RunKey & { epoch: number },
): Promise<BegunCall[]> {
  const rows = await db.within(db.read<Row[]>`
    select facts from hub.model_calls
    where tenant_id = ${tenantId} and run_id = ${toUuid(runId as Id)} and epoch < ${epoch}
    order by began_at, usage_id limit ${PAGE}`);
  return rows.map(({ facts }) => facts);
}

/**
 * Characters of text that an owner has committed of its last answer in this step; 0 when the log does not have the
 * step's start under its epoch.
 */
export async function readSaidChars(
  db: Database,
  { tenantId, runId, epoch, step }: RunKey & { epoch: number; step: number },
): Promise<number> {
  const rows = await db.within(db.read<{ chars: number }[]>`
    with events as materialized (
      select (e.value ->> 'seq')::bigint as seq, e.value -> 'event' as event
      from hub.run_events b cross join json_array_elements(b.events) e
      where b.tenant_id = ${tenantId} and b.run_id = ${toUuid(runId as Id)} and b.epoch = ${epoch}),
    begun as (
      select max(seq) as seq from events
      where event ->> 'type' in ('step-start', 'step-reset') and (event ->> 'step')::int = ${step})
    select coalesce(sum(length(event ->> 'delta')), 0)::int as chars
    from events join begun on events.seq > begun.seq`);
  return rows[0]?.chars ?? 0;
}

/** Begun calls older than `ageMs` whose owner has lost their run, or ended it without their rows; by run. */
export async function listLostModelCalls(
  db: Database,
  { ageMs }: { ageMs: number },
): Promise<(RunKey & { calls: BegunCall[] })[]> {
  const rows = await db.within(db.read<(Row & { tenant_id: string; run_id: string })[]>`
    select c.tenant_id, c.run_id, c.facts from hub.model_calls c
    left join hub.runs r on r.tenant_id = c.tenant_id and r.run_id = c.run_id
    where c.began_at < now() - ${ageMs}::float8 * interval '1 millisecond'
      and (r.run_id is null or r.lease_epoch > c.epoch or r.status <> 'running')
    order by c.began_at limit ${PAGE}`);
  const runs = new Map<string, RunKey & { calls: BegunCall[] }>();
  for (const { tenant_id: tenantId, run_id, facts } of rows) {
    const runId = fromUuid("run", run_id);
    const run = runs.get(`${tenantId} ${runId}`) ?? { tenantId, runId, calls: [] };
    run.calls.push(facts);
    runs.set(`${tenantId} ${runId}`, run);
  }
  return [...runs.values()];
}
