import type { Database } from "./database.ts";

/** Runs whose logs are dropped together, so that each statement stays far within its deadline. */
const PRUNE_BATCH = 100;

interface Pruned {
  runs: number;
  dropped: number;
}

/** Drops the event logs of runs that ended before `hours` ago; their messages and parts stay. Gives the rows dropped. */
export async function pruneEvents(
  db: Database,
  hours: number,
  { batch = PRUNE_BATCH }: { batch?: number } = {},
): Promise<number> {
  const prune = db.skipLocked ? pruneUnlocked : pruneOneByOne;
  let dropped = 0;
  for (;;) {
    const done = await prune(db, { hours, batch });
    dropped += done.dropped;
    if (done.runs < batch) return dropped;
  }
}

/** One statement, in which replicas that prune at the same time pass each other's runs by. */
async function pruneUnlocked(
  db: Database,
  { hours, batch }: { hours: number; batch: number },
): Promise<Pruned> {
  const rows = await db.within(db.control<Pruned[]>`
    with old as materialized (
      select tenant_id, run_id from hub.runs
      where events_pruned_at is null and finished_at < now() - ${hours}::int * interval '1 hour'
      order by finished_at limit ${batch} for update skip locked
    ), gone as (
      delete from hub.run_events e using old o
      where e.tenant_id = o.tenant_id and e.run_id = o.run_id
      returning 1
    ), marked as (
      update hub.runs r set events_pruned_at = now() from old o
      where r.tenant_id = o.tenant_id and r.run_id = o.run_id
    )
    select (select count(*)::int from old) as runs, (select count(*)::int from gone) as dropped`);
  return rows[0] ?? { runs: 0, dropped: 0 };
}

/** A look without locks, then one statement a run: whoever marks it first drops its log. */
async function pruneOneByOne(
  db: Database,
  { hours, batch }: { hours: number; batch: number },
): Promise<Pruned> {
  const sql = db.control;
  const old = await db.within(sql<{ tenant_id: string; run_id: string }[]>`
    select tenant_id, run_id from hub.runs
    where events_pruned_at is null and finished_at < now() - ${hours}::int * interval '1 hour'
    order by finished_at limit ${batch}`);
  let dropped = 0;
  for (const { tenant_id, run_id } of old) {
    const rows = await db.within(sql<{ dropped: number }[]>`
      with marked as (
        update hub.runs set events_pruned_at = now()
        where tenant_id = ${tenant_id} and run_id = ${run_id} and events_pruned_at is null
        returning tenant_id, run_id
      ), gone as (
        delete from hub.run_events e using marked m
        where e.tenant_id = m.tenant_id and e.run_id = m.run_id
        returning 1
      )
      select count(*)::int as dropped from gone`);
    dropped += rows[0]?.dropped ?? 0;
  }
  return { runs: old.length, dropped };
}
