import { fromUuid } from "../core/id.ts";
import type { Database, Sql } from "./database.ts";
import type { RunKey } from "./runs.ts";

/** A run that is this replica's now. `poisoned`: it was claimed too often without finishing a step. */
export interface ClaimedRun extends RunKey {
  /** The fencing token of this claim; a later one makes everything written under it void. */
  epoch: number;
  poisoned: boolean;
  /** Its owner's lease ran out; else it was let go, by one that books its own calls. */
  lost: boolean;
}

/** Who claims, for how long, and how many runs at most. */
export interface ClaimOptions {
  owner: string;
  leaseMs: number;
  limit: number;
}

interface Row {
  tenant_id: string;
  run_id: string;
  epoch: number;
  poisoned: boolean;
  lost: boolean;
}

/** Takes over runs whose lease has run out: a new epoch, so that their former owner is fenced. */
export async function claimAbandoned(db: Database, options: ClaimOptions): Promise<ClaimedRun[]> {
  const rows = await (db.skipLocked ? claimUnlocked : claimOneByOne)(db, options);
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    runId: fromUuid("run", row.run_id),
    epoch: row.epoch,
    poisoned: row.poisoned,
    lost: row.lost,
  }));
}

/** One statement, in which replicas that look at the same time pass each other's rows by. */
async function claimUnlocked(db: Database, options: ClaimOptions): Promise<Row[]> {
  const sql = db.control;
  return await db.within(sql<Row[]>`
    update hub.runs r set ${newLease(sql, options)}
    from (
      select tenant_id, run_id, lease_until is not null as lost from hub.runs r where ${
    isAbandoned(sql)
  }
      order by run_after limit ${options.limit} for update skip locked) c
    where r.tenant_id = c.tenant_id and r.run_id = c.run_id
    returning ${claimed(sql)}, c.lost`);
}

/**
 * A look without locks, then one compare-and-set a run: of the replicas that saw the same epoch one moves it on, the
 * others change nothing. One row a statement leaves no order in which two of them could wait for each other, and stays
 * with one tenant. A run whose statement failed is left to the next look.
 */
async function claimOneByOne(db: Database, options: ClaimOptions): Promise<Row[]> {
  const sql = db.control;
  const seen = await db.within(sql<Omit<Row, "poisoned">[]>`
    select tenant_id, run_id, lease_epoch::float8 as epoch, lease_until is not null as lost from hub.runs r where ${
    isAbandoned(sql)
  }
    order by run_after limit ${options.limit}`);
  const answers = await Promise.allSettled(seen.map((run) =>
    db.within(sql<Row[]>`
      update hub.runs r set ${newLease(sql, options)}
      where r.tenant_id = ${run.tenant_id} and r.run_id = ${run.run_id} and r.lease_epoch = ${run.epoch}
        and ${isAbandoned(sql)}
      returning ${claimed(sql)}, ${run.lost}::boolean as lost`)
  ));
  const failure = answers.find((answer) => answer.status === "rejected");
  const rows = answers.flatMap((answer) => answer.status === "fulfilled" ? [...answer.value] : []);
  if (failure !== undefined && rows.length === 0) throw failure.reason;
  return rows;
}

const newLease = (sql: Sql, { owner, leaseMs }: ClaimOptions) =>
  sql`status = 'running', lease_owner = ${owner}, lease_epoch = r.lease_epoch + 1,
    lease_until = now() + ${leaseMs}::int * interval '1 millisecond', attempts = r.attempts + 1`;

const isAbandoned = (sql: Sql) =>
  sql`r.status in ('queued', 'running') and r.run_after <= now()
    and (r.lease_until is null or r.lease_until < now())`;

const claimed = (sql: Sql) =>
  sql`r.tenant_id, r.run_id, r.lease_epoch::float8 as epoch, r.attempts > r.max_attempts as poisoned`;
