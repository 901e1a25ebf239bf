import { type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";
import type { RunKey } from "./runs.ts";

/**
 * The number up to which the log still has what was written under this epoch or an earlier one, at most `seq`. A writer
 * whose confirmed events are all there gets `seq` itself.
 */
export async function readLoggedTo(
  db: Database,
  { tenantId, runId, epoch, seq }: RunKey & { epoch: number; seq: number },
): Promise<number> {
  const rows = await db.within(db.control<{ seq: number | null }[]>`
    select max(least(seq_to, ${seq}::bigint))::float8 as seq from hub.run_events
    where tenant_id = ${tenantId} and run_id = ${toUuid(runId as Id)}
      and seq_from <= ${seq} and epoch <= ${epoch}`);
  return rows[0]?.seq ?? 0;
}

/**
 * Claims an active run for a writer whose confirmed events Postgres has lost, whatever its lease: the epoch rises over
 * both the stored one and the writer's, which may be later. Gives the new epoch; null when the run has ended, or has
 * changed since it was read.
 */
export async function claimAfterLoss(
  db: Database,
  run: RunKey & { storedEpoch: number; storedSeq: number; epoch: number; leaseMs: number },
): Promise<number | null> {
  const rows = await db.within(db.control<{ epoch: number }[]>`
    update hub.runs r set status = 'running', lease_owner = null, attempts = r.attempts + 1,
      lease_epoch = greatest(r.lease_epoch, ${run.epoch}::bigint) + 1,
      lease_until = now() + ${run.leaseMs}::int * interval '1 millisecond'
    where r.tenant_id = ${run.tenantId} and r.run_id = ${toUuid(run.runId as Id)}
      and r.lease_epoch = ${run.storedEpoch} and r.last_seq = ${run.storedSeq}
      and r.status in ('queued', 'running', 'waiting')
    returning r.lease_epoch::float8 as epoch`);
  return rows[0]?.epoch ?? null;
}
