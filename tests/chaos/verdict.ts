import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import {
  type HubEvent,
  isTransient,
  isTransition,
  type SequencedEvent,
} from "../../src/core/event.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { Database } from "../../src/store/database.ts";
import { replay, type Replicas, type Seen, type Witness } from "./client.ts";

/** How long rows of lost replicas may take to be booked: those of no takeover wait for a minute. */
const SETTLED_MS = 150_000;

interface UsageCounts {
  rows: number;
  orphaned: number;
  wrong: number;
  open: number;
}

/** What a run looks like in Postgres. */
interface Logged {
  events: SequencedEvent[];
  /** The same events, as the bytes that Postgres keeps. */
  bytes: Seen[];
  epochs: number[];
  status: string;
}

async function readLogged(db: Database, runId: string): Promise<Logged> {
  const id = toUuid(runId as Id);
  const rows = await db.within(db.read<{ epoch: number; seq: number; data: string }[]>`
    select b.epoch::int as epoch, (e.value ->> 'seq')::int as seq, (e.value -> 'event')::text as data
    from hub.run_events b cross join json_array_elements(b.events) with ordinality e
    where b.run_id = ${id} order by b.seq_from, e.ordinality`);
  const [run] = await db.within(db.read<{ status: string }[]>`
    select status from hub.runs where run_id = ${id}`);
  return {
    events: rows.map(({ seq, data }) => ({ seq, event: JSON.parse(data) })),
    bytes: rows.map(({ seq, data }) => ({ seq, data })),
    epochs: rows.map(({ epoch }) => epoch),
    status: run?.status ?? "gone",
  };
}

/**
 * Holds what a client saw against a run's log, byte for byte: every event of the log, in its order. More may have been
 * shown of deltas alone, which are sent before they are committed; then the numbers jump at a `step-reset` behind them.
 */
export function judgeStream(runId: string, log: readonly Seen[], seen: readonly Seen[]): void {
  const numbers = seen.map(({ seq }) => seq);
  assert.deepEqual(numbers, [...new Set(numbers)].toSorted((a, b) => a - b), `${runId}: order`);
  const kept = new Set(log.map(({ seq }) => seq));
  assert.deepEqual(seen.filter(({ seq }) => kept.has(seq)), log, `${runId}: not the log's bytes`);
  const resets = log.filter(({ data }) => JSON.parse(data).type === "step-reset");
  for (const { seq, data } of seen.filter(({ seq }) => !kept.has(seq))) {
    const event: HubEvent = JSON.parse(data);
    const isDelta = !isTransition(event) && !isTransient(event);
    assert.ok(isDelta, `${runId}: ${event.type} ${seq} was shown and is not in the log`);
    assert.ok(resets.some((reset) => reset.seq > seq), `${runId}: ${seq} was never taken back`);
  }
}

/**
 * Holds a run against its log: whole by every invariant, one end, owners in order; a replay has exactly its bytes, and
 * the client that was there all the time has them too.
 */
export async function judgeRun(
  db: Database,
  witness: Witness,
  replicas: Replicas,
): Promise<{ owners: number }> {
  const { events, bytes, epochs, status } = await readLogged(db, witness.runId);
  const { runId } = witness;
  assert.deepEqual(checkLog(events), [], runId);
  const said = JSON.stringify(events.slice(-3).map(({ event }) => event));
  assert.equal(status, "completed", `${runId} is ${status}, after ${said}`);
  assert.equal(events.filter(({ event }) => event.type === "finish").length, 1, runId);
  assert.deepEqual(epochs, epochs.toSorted((a, b) => a - b), `${runId}: owners out of order`);
  assert.deepEqual(await replay(replicas, runId), bytes, `${runId}: a replay is not the log`);
  judgeStream(runId, bytes, witness.seen);
  return { owners: new Set(epochs).size };
}

/**
 * Holds usage rows against the calls that the provider got: as many rows as calls, once the rows of lost replicas are
 * booked, each with the provider, model, start and size of its call. Gives how many stand for calls whose end no one saw.
 */
export async function judgeUsage(
  db: Database,
  { calls }: { calls: () => number },
): Promise<{ rows: number; orphaned: number }> {
  const read = async () => {
    const [row] = await db.within(db.read<UsageCounts[]>`
      select count(*)::int as rows, count(*) filter (where error_code = 'orphaned')::int as orphaned,
        count(*) filter (where provider <> 'chaos' or model <> 'm' or prompt_tokens is null and outcome <> 'error'
          or started_at < now() - interval '1 day')::int as wrong,
        (select count(*)::int from hub.model_calls) as open
      from hub.usage`);
    return row ?? assert.fail("no counts");
  };
  let counts = await read();
  const untilMs = performance.now() + SETTLED_MS;
  while ((counts.open > 0 || counts.rows < calls()) && performance.now() < untilMs) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    counts = await read();
  }
  const { rows, orphaned, wrong, open } = counts;
  const said = JSON.stringify(counts);
  assert.equal(rows, calls(), `rows of the provider's ${calls()} calls: ${said}`);
  assert.deepEqual([wrong, open], [0, 0], said);
  return { rows, orphaned };
}

/** Holds the journal against the doings outside: nothing that must not come twice did. Gives how many are in doubt. */
export async function judgeEffects(
  db: Database,
  { runs, effects }: { runs: readonly string[]; effects: string },
): Promise<{ done: number; unknown: number }> {
  const count = new Map<string, number>();
  for (const line of effects.split("\n").filter((line) => line !== "")) {
    count.set(line, (count.get(line) ?? 0) + 1);
  }
  let done = 0;
  for (const [line, times] of count) {
    if (!line.startsWith("effect ")) continue;
    assert.equal(times, 1, `${line} was done ${times} times`);
    done++;
  }
  let unknown = 0;
  for (const runId of runs) {
    const rows = await db.within(db.read<{ key: string; state: string; tool: string }[]>`
      select idempotency_key as key, state, tool_name as tool from hub.tool_calls
      where run_id = ${toUuid(runId as Id)}`);
    for (const { key, state, tool } of rows) {
      assert.match(state, /^(?:succeeded|unknown)$/, `${runId}: a call is left ${state}`);
      if (state === "unknown") {
        unknown++;
        assert.equal(tool, "chaos.act");
      } else if (tool === "chaos.act") {
        assert.equal(count.get(`effect ${key}`), 1, `${key} counts as done and was not`);
      }
    }
  }
  return { done, unknown };
}
