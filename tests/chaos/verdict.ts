import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import type { SequencedEvent } from "../../src/core/event.ts";
import { type Id, toUuid } from "../../src/core/id.ts";
import type { Database } from "../../src/store/database.ts";
import type { Witness } from "./client.ts";

/** What a run looks like in Postgres. */
interface Logged {
  events: SequencedEvent[];
  epochs: number[];
  status: string;
}

async function readLogged(db: Database, runId: string): Promise<Logged> {
  const id = toUuid(runId as Id);
  const rows = await db.within(db.read<{ epoch: number; events: SequencedEvent[] }[]>`
    select epoch::int as epoch, events from hub.run_events where run_id = ${id} order by seq_from`);
  const [run] = await db.within(db.read<{ status: string }[]>`
    select status from hub.runs where run_id = ${id}`);
  return {
    events: rows.flatMap(({ events }) => events),
    epochs: rows.map(({ epoch }) => epoch),
    status: run?.status ?? "gone",
  };
}

/**
 * Holds a run against its log: whole by every invariant, one end, owners in order, and the client has exactly its
 * events. Deltas may have been shown that were never committed; then the numbers jump at a `step-reset` behind them.
 */
export async function judgeRun(db: Database, witness: Witness): Promise<{ owners: number }> {
  const { events, epochs, status } = await readLogged(db, witness.runId);
  const { runId } = witness;
  assert.deepEqual(checkLog(events), [], runId);
  const said = JSON.stringify(events.slice(-3).map(({ event }) => event));
  assert.equal(status, "completed", `${runId} is ${status}, after ${said}`);
  assert.equal(events.filter(({ event }) => event.type === "finish").length, 1, runId);
  assert.deepEqual(epochs, epochs.toSorted((a, b) => a - b), `${runId}: owners out of order`);
  const log = new Map(events.map(({ seq, event }) => [seq, event]));
  const numbers = witness.seen.map(({ seq }) => seq);
  assert.deepEqual(numbers, [...new Set(numbers)].toSorted((a, b) => a - b), `${runId}: order`);
  const seen = new Map(witness.seen.map(({ seq, data }) => [seq, data]));
  for (const [seq, event] of log) {
    assert.deepEqual(JSON.parse(seen.get(seq) ?? "null"), event, `${runId}: event ${seq}`);
  }
  const resets = events.filter(({ event }) => event.type === "step-reset").map(({ seq }) => seq);
  for (const { seq, data } of witness.seen) {
    if (log.has(seq)) continue;
    assert.match(
      JSON.parse(data).type,
      /-(?:delta|start|end)$/,
      `${runId}: ${seq} is not in the log`,
    );
    assert.ok(resets.some((reset) => reset > seq), `${runId}: ${seq} was never taken back`);
  }
  return { owners: new Set(epochs).size };
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
