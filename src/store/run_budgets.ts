import { type Id, toUuid } from "../core/id.ts";
import type { RunBudget } from "../core/run_budget.ts";
import type { Database } from "./database.ts";
import type { RunKey } from "./runs.ts";

/** What a run may use up, and what Postgres knows of what it has. */
export interface SpentBudget {
  /** As it was asked for; null when nothing was said. */
  budget: RunBudget | null;
  /** Milliseconds since it was asked for, by Postgres' clock. */
  ageMs: number;
  /** What its finished steps have cost; null when a part of it is unknown. */
  costMicros: number | null;
}

/** The budget of a run, for whoever goes on with it; null when there is no such run. */
export async function readSpentBudget(db: Database, key: RunKey): Promise<SpentBudget | null> {
  const rows = await db.within(db.read<SpentBudget[]>`
    select r.budget, extract(epoch from now() - r.created_at)::float8 * 1000 as "ageMs",
      (select case when count(*) = count(s.cost_micros) then coalesce(sum(s.cost_micros), 0)::float8 end
        from hub.steps s
        where s.tenant_id = r.tenant_id and s.run_id = r.run_id and s.state = 'done') as "costMicros"
    from hub.runs r where r.tenant_id = ${key.tenantId} and r.run_id = ${toUuid(key.runId as Id)}`);
  return rows[0] ?? null;
}
