import type postgres from "postgres";
import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";
import type { RunKey, StoredRun } from "./runs.ts";

/** A run as operators see it. Durations are by Postgres' clock, which alone decides who owns a run. */
export interface RunOverview {
  runId: string;
  sessionId: string;
  agent: string;
  model: string;
  status: StoredRun["status"];
  finishReason: string | null;
  /** The replica that has the lease; null when nobody does. */
  owner: string | null;
  epoch: number;
  /** How often the run was begun or taken over since a step of it was last done. */
  attempts: number;
  /** The last step that was begun, counted from 0; null before the first. */
  step: number | null;
  lastSeq: number;
  /** Since the run was begun. */
  ageMs: number;
  /** Until the lease runs out, negative when it has; null without one. */
  leaseMs: number | null;
  createdAt: string;
  finishedAt: string | null;
}

type Row = Omit<RunOverview, "createdAt" | "finishedAt"> & {
  createdAt: Date;
  finishedAt: Date | null;
};

/** Active runs, and behind them those that ended, each the newest first; `sinceMs` leaves out ended ones that began before. */
export async function listRuns(
  db: Database,
  options: { tenantId: string; sinceMs: number; limit: number },
): Promise<RunOverview[]> {
  const { tenantId, limit } = options;
  const chosen = db.read`
      (select run_id from hub.runs
        where tenant_id = ${tenantId} and status in ('queued', 'running', 'waiting')
        order by run_id desc limit ${limit})
      union all
      (select run_id from hub.runs
        where tenant_id = ${tenantId} and status in ('completed', 'failed', 'cancelled')
          and run_id >= ${uuidFloor(options.sinceMs)}
        order by run_id desc limit ${limit})`;
  return await readOverviews(db, { tenantId, chosen, limit });
}

/** One run; null when there is none of that id. */
export async function readRunOverview(db: Database, key: RunKey): Promise<RunOverview | null> {
  const { tenantId, runId } = key;
  const chosen = db.read`select ${toUuid(runId as Id)}::uuid as run_id`;
  const runs = await readOverviews(db, { tenantId, chosen, limit: 1 });
  return runs[0] ?? null;
}

async function readOverviews(
  db: Database,
  { tenantId, chosen, limit }: {
    tenantId: string;
    chosen: postgres.Fragment;
    limit: number;
  },
): Promise<RunOverview[]> {
  const rows = await db.within(db.read<Row[]>`
    select r.run_id as "runId", r.session_id as "sessionId", r.agent, r.model, r.status,
      r.finish_reason as "finishReason", r.lease_owner as owner, r.lease_epoch::float8 as epoch, r.attempts,
      (select max(s.step) from hub.steps s where s.tenant_id = r.tenant_id and s.run_id = r.run_id) as step,
      r.last_seq::float8 as "lastSeq",
      round(extract(epoch from now() - r.created_at) * 1000)::float8 as "ageMs",
      round(extract(epoch from r.lease_until - now()) * 1000)::float8 as "leaseMs",
      r.created_at as "createdAt", r.finished_at as "finishedAt"
    from (${chosen}) c
    join hub.runs r on r.tenant_id = ${tenantId} and r.run_id = c.run_id
    order by r.status in ('queued', 'running', 'waiting') desc, r.run_id desc limit ${limit}`);
  return rows.map((row) => ({
    ...row,
    runId: fromUuid("run", row.runId),
    sessionId: fromUuid("ses", row.sessionId),
    createdAt: row.createdAt.toISOString(),
    finishedAt: row.finishedAt?.toISOString() ?? null,
  }));
}

/** The least UUIDv7 of a time: ids of runs are in the order of their beginnings. */
function uuidFloor(timeMs: number): string {
  const hex = Math.max(0, timeMs).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
