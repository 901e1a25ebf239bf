import { type Id, toUuid } from "../core/id.ts";
import type { Database } from "./database.ts";
import type { StepRow } from "./run_commit.ts";
import type { RunKey } from "./runs.ts";

/** The run's steps that have not ended. */
export async function readOpenSteps(
  db: Database,
  key: RunKey,
): Promise<Pick<StepRow, "step" | "attempt">[]> {
  return await db.within(db.read<Pick<StepRow, "step" | "attempt">[]>`
    select step, attempt from hub.steps
    where tenant_id = ${key.tenantId} and run_id = ${toUuid(key.runId as Id)} and state = 'started'
    order by step`);
}
