import { ABORT_GRACE_MS } from "../core/limits.ts";
import type { AgentRun } from "./agent_run.ts";
import type { ReadyCall } from "./judge_calls.ts";
import type { LoopBatch, ToolCallRecord } from "./loop_batch.ts";
import type { BudgetWatch } from "./run_budget.ts";
import type { RunLedger } from "./run_ledger.ts";
import { cancelledCall, stoppedCall, ToolRunner } from "./tool_runner.ts";

/**
 * Runs the calls of a step: together, at most `maxParallelTools` at once, in call order as places get free, and
 * sequential tools alone. Each call is handed out as `started` before it runs, and its result as soon as it ends; one
 * failure cancels no sibling. When the run is stopped, tools get `ABORT_GRACE_MS` to end, and a success still counts.
 * The last results wait in the ledger.
 */
export async function* runTools(
  run: AgentRun,
  ledger: RunLedger,
  { calls, budgets }: { calls: readonly ReadyCall[]; budgets: BudgetWatch },
): AsyncGenerator<LoopBatch, void, void> {
  if (calls.length === 0) return;
  ledger.add([], calls.map(({ record }) => record));
  const runner = new ToolRunner(run, budgets);
  const waiting = [...calls];
  let held: ReadyCall[] = [];
  const collect = () => {
    const news = runner.take();
    ledger.add(news.events, news.calls);
  };
  try {
    let alone = false;
    while (!run.signal.aborted) {
      if (runner.size === 0) alone = false;
      held = admit(waiting, { running: runner.size, alone, most: run.settings.maxParallelTools });
      alone ||= held.some(({ tool }) => tool.sequential);
      ledger.add([], held.map(started));
      if (runner.size === 0 && held.length === 0) return;
      if (ledger.hasMore) yield ledger.take();
      if (run.signal.aborted) break;
      for (const call of held.splice(0)) runner.start(call);
      await runner.change();
      collect();
    }
    for (const call of [...held, ...waiting]) {
      const hasBegun = call.record.state === "started";
      const { event, record } = hasBegun ? stoppedCall(call) : cancelledCall(call);
      ledger.add([event], [record]);
    }
    const endMs = run.clock.monotonic() + ABORT_GRACE_MS;
    for (let leftMs = ABORT_GRACE_MS; runner.size > 0 && leftMs > 0;) {
      await runner.change(leftMs);
      collect();
      leftMs = endMs - run.clock.monotonic();
    }
    for (const call of runner.abandon()) {
      const { event, record } = stoppedCall(call);
      ledger.add([event], [record]);
    }
  } finally {
    runner.close();
  }
}

/** Takes the calls that may start now out of `waiting`, in call order. */
function admit(
  waiting: ReadyCall[],
  now: { running: number; alone: boolean; most: number },
): ReadyCall[] {
  const admitted: ReadyCall[] = [];
  if (now.alone) return admitted;
  for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
    const busy = now.running + admitted.length;
    if (busy >= now.most || (next.tool.sequential && busy > 0)) break;
    waiting.shift();
    admitted.push(next);
    if (next.tool.sequential) break;
  }
  return admitted;
}

function started(call: ReadyCall): ToolCallRecord {
  return { ...call.record, state: "started" };
}
