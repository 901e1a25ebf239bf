import type { AgentRun } from "./agent_run.ts";
import type { LoopBatch } from "./loop_batch.ts";
import type { RunLedger } from "./run_ledger.ts";
import { runStep, type StepEnd } from "./step.ts";
import type { ConcludeReason } from "./step_reason.ts";
import type { StepRequests, StepWish } from "./step_requests.ts";
import type { ToolSet } from "./tool_set.ts";

/** A step to be answered. */
export interface StepQuestion {
  requests: StepRequests;
  wish: StepWish;
  tools: ToolSet;
  /** Calls that come all the same are dropped. */
  ignoreCalls: boolean;
}

/** What came of it. `concludes` is there when it was the last step, and why. */
export interface StepAnswer {
  end: StepEnd;
  concludes: ConcludeReason | null;
}

/** Gets the answer of a step: a request that its provider refuses as too long is made shorter, and tried once more. */
export async function* answerStep(
  run: AgentRun,
  ledger: RunLedger,
  { requests, wish, tools, ignoreCalls }: StepQuestion,
): AsyncGenerator<LoopBatch, StepAnswer, void> {
  const { step } = wish;
  try {
    let prepared = yield* requests.prepare(wish);
    for (let isAgain = false;; isAgain = true) {
      if (prepared.kind === "failed") return { end: prepared, concludes: null };
      const { request, projection, concludes } = prepared;
      const plan = { step, request, tools, projection };
      const ignored = ignoreCalls || concludes !== null;
      const end = yield* runStep(run, ledger, { ...plan, ignoreCalls: ignored });
      const isTooLong = end.kind === "failed" && end.error.code === "context_length_exceeded";
      if (!isTooLong) return { end, concludes };
      prepared = yield* requests.prepare({ ...wish, refused: end.error, isAgain });
    }
  } catch (error) {
    if (!run.signal.aborted) throw error;
    return { end: { kind: "aborted" }, concludes: null };
  }
}
