import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { KeyEnd } from "../core/key_end.ts";
import type { Database } from "./database.ts";
import type { RunKey } from "./runs.ts";

/** Runs read at a time. */
const BATCH = 100;
/** A replica that drives a run has this long to stop it by itself: it knows why, and its log then says so. */
const DRIVEN_SECONDS = 15;

/** Why a key has ended, by Postgres' clock; null when it holds, or has no row. */
export async function readKeyEnd(
  db: Database,
  { tenantId, keyId }: { tenantId: string; keyId: string },
): Promise<KeyEnd | null> {
  const rows = await db.within(db.read<{ revoked: boolean }[]>`
    select revoked_at is not null as revoked from hub.api_keys
    where tenant_id = ${tenantId} and key_id = ${toUuid(keyId as Id)}
      and (revoked_at is not null or expires_at <= now())`);
  return rows[0] === undefined ? null : rows[0].revoked ? "revoked" : "expired";
}

/** Runs of all tenants whose key has ended, without a stored stop request: those that wait for people, and those that their replica has not stopped in time. */
export async function listRunsOfEndedKeys(
  db: Database,
): Promise<(RunKey & { end: KeyEnd })[]> {
  const rows = await db.within(
    db.read<{ tenant_id: string; run_id: string; revoked: boolean }[]>`
    select r.tenant_id, r.run_id, k.revoked_at is not null as revoked from hub.runs r
    join hub.api_keys k on k.tenant_id = r.tenant_id and k.key_id = r.key_id
    where r.status in ('queued', 'running', 'waiting') and r.cancel_requested_at is null
      and least(k.revoked_at, k.expires_at) <= case when r.status = 'waiting' then now()
        else now() - ${DRIVEN_SECONDS}::int * interval '1 second' end
    order by r.run_id limit ${BATCH}`,
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    runId: fromUuid("run", row.run_id),
    end: row.revoked ? "revoked" : "expired",
  }));
}
