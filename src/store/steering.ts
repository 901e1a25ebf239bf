import { fromUuid, type Id, toUuid } from "../core/id.ts";
import type { SteeringFate, SteeringKind, SteeringText } from "../core/steering.ts";
import { type Database, isUniqueViolation } from "./database.ts";
import type { RunKey } from "./runs.ts";

/** A text that was said to a run, with what became of it. Times are RFC 3339. */
export interface StoredSteering extends SteeringText {
  /** The id its client gave. */
  clientId: string | null;
  /** Its place among the run's texts, from 1. */
  position: number;
  state: "pending" | SteeringFate;
  createdAt: string;
  decidedAt: string | null;
}

/** A text to be said to a run. */
export interface NewSteering extends RunKey, SteeringText {
  clientId: string | null;
}

/** What became of it. Only `said` has changed anything; `known` came before with the same client id. */
export type AddedSteering =
  | { kind: "said" | "known"; steering: StoredSteering }
  | { kind: "over"; status: string; isStopping: boolean }
  | { kind: "full" }
  | { kind: "no-run" };

/** Texts that one run takes. */
export const MAX_STEERING = 500;
/** Their bytes together: they are read, written and sent at one time. Those who speak at the same moment may go past it. */
export const MAX_STEERING_BYTES = 4 * 1024 * 1024;

/** The second suffices, unless the text that was in the way has gone meanwhile. */
const MAX_ATTEMPTS = 3;

interface Row {
  steering_id: string;
  kind: SteeringKind;
  text: string;
  client_id: string | null;
  position: number;
  state: StoredSteering["state"];
  created_at: string;
  decided_at: string | null;
}

/**
 * Writes a text for a run that goes on. The run's row is locked, as it is by whoever ends the run, so one of them comes
 * first: the text is known to the end, or refused.
 */
export async function addSteering(db: Database, text: NewSteering): Promise<AddedSteering> {
  for (let attempt = 1;; attempt++) {
    try {
      const added = await tryAddSteering(db, text);
      if (added.kind !== "over" || attempt > 1) return added;
    } catch (error) {
      // A statement that waited for the lock does not see what the one before it has written: the next one does.
      if (!isUniqueViolation(error) || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

async function tryAddSteering(db: Database, text: NewSteering): Promise<AddedSteering> {
  const { tenantId, clientId } = text;
  const runId = toUuid(text.runId as Id);
  const rows = await db.within(
    db.control<{ status: string; stopping: boolean; full: boolean; said: Row; known: Row }[]>`
    with locked as materialized (
      select r.run_id, r.status, r.cancel_requested_at is not null as stopping,
        r.steer_count >= ${MAX_STEERING} or ${MAX_STEERING_BYTES}::bigint < octet_length(${text.text}::text) + (
          select coalesce(sum(octet_length(s.text)), 0) from hub.steering s
          where s.tenant_id = ${tenantId} and s.run_id = ${runId}) as "full"
      from hub.runs r where r.tenant_id = ${tenantId} and r.run_id = ${runId} for update
    ), known as (
      select s.* from hub.steering s
      where s.tenant_id = ${tenantId} and s.run_id = ${runId} and s.client_id = ${clientId}::text
    ), counted as (
      update hub.runs r set steer_count = r.steer_count + 1
      from locked l
      where r.tenant_id = ${tenantId} and r.run_id = l.run_id and l.status in ('queued', 'running', 'waiting')
        and not l.stopping and not l."full" and not exists (select 1 from known)
      returning r.run_id, r.steer_count
    ), said as (
      insert into hub.steering (tenant_id, steering_id, run_id, position, kind, text, client_id)
      select ${tenantId}::uuid, ${
      toUuid(text.steeringId as Id)
    }::uuid, c.run_id, c.steer_count, ${text.kind},
        ${text.text}, ${clientId}::text
      from counted c
      returning *
    )
    select l.status, l.stopping, l."full", (select to_json(s) from said s) as said,
      (select to_json(k) from known k) as known
    from locked l`,
  );
  const row = rows[0];
  if (row === undefined) return { kind: "no-run" };
  if (row.known !== null) return { kind: "known", steering: toSteering(row.known) };
  if (row.said !== null) return { kind: "said", steering: toSteering(row.said) };
  const { status, stopping: isStopping } = row;
  const goesOn = !isStopping && ["queued", "running", "waiting"].includes(status);
  return goesOn ? { kind: "full" } : { kind: "over", status, isStopping };
}

/** All texts of a run, in the order in which they were said. One that nobody has decided when the run was over is undelivered. */
export async function listSteering(db: Database, key: RunKey): Promise<StoredSteering[]> {
  const rows = await db.within(db.read<Row[]>`
    select s.steering_id, s.kind, s.text, s.client_id, s.position, s.created_at, s.decided_at,
      case when s.state = 'pending' and r.finished_at is not null then 'undelivered' else s.state end as state
    from hub.runs r
    join hub.steering s on s.tenant_id = r.tenant_id and s.run_id = r.run_id
    where r.tenant_id = ${key.tenantId} and r.run_id = ${toUuid(key.runId as Id)}
    order by s.position`);
  return rows.map(toSteering);
}

/** The run's texts that nobody has decided, in order, and how many were said in all. */
export async function readPendingSteering(
  db: Database,
  key: RunKey,
): Promise<{ steered: number; texts: SteeringText[] }> {
  const rows = await db.within(db.read<{ steered: number; texts: Row[] | null }[]>`
    select r.steer_count as steered, (
      select json_agg(s order by s.position) from hub.steering s
      where s.tenant_id = r.tenant_id and s.run_id = r.run_id and s.state = 'pending') as texts
    from hub.runs r where r.tenant_id = ${key.tenantId} and r.run_id = ${toUuid(key.runId as Id)}`);
  const { steered = 0, texts } = rows[0] ?? {};
  return { steered, texts: (texts ?? []).map(toText) };
}

function toText({ steering_id, kind, text }: Row): SteeringText {
  return { steeringId: fromUuid("steer", steering_id), kind, text };
}

function toSteering(row: Row): StoredSteering {
  const { client_id: clientId, position, state, created_at, decided_at } = row;
  return {
    ...toText(row),
    clientId,
    position,
    state,
    createdAt: new Date(created_at).toISOString(),
    decidedAt: decided_at === null ? null : new Date(decided_at).toISOString(),
  };
}
