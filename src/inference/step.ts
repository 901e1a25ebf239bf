import { sleep } from "../core/clock.ts";
import type { Projection } from "../core/context_events.ts";
import { HubError, toHubError } from "../core/error.ts";
import { MAX_ANSWER_INPUT_LENGTH, MAX_CALL_INPUT_LENGTH } from "../core/limits.ts";
import type { ModelUse } from "../core/model_use.ts";
import type { ModelFinishReason, ModelRequest } from "../core/model.ts";
import type { StepCall } from "../core/step_call.ts";
import { StepWriter } from "../core/step_writer.ts";
import type { AgentRun } from "./agent_run.ts";
import type { LoopBatch } from "./loop_batch.ts";
import { ModelReader } from "./model_reader.ts";
import type { RunLedger } from "./run_ledger.ts";
import type { ToolSet } from "./tool_set.ts";

/** Model calls of one step at most, when answers break off. */
export const MAX_ATTEMPTS = 3;
const FIRST_BACKOFF_MS = 500;
/** A provider that wants a longer pause is as good as down. */
const MAX_RETRY_AFTER_MS = 60_000;
/** A run that goes on waits this long in all for a place at its models, or for room in its key's budget. */
const MAX_FULL_MS = 60_000;
/** What calls under way leave no room for. */
const PASSING: ReadonlySet<string> = new Set(["overloaded", "budget_reserved"]);

/** One step to be done. */
export interface StepPlan {
  step: number;
  request: ModelRequest;
  tools: ToolSet;
  /** The model was told not to call tools: what it calls all the same is dropped. */
  ignoreCalls: boolean;
  projection?: Projection | undefined;
}

/** How a step's model call ended. The last events of an answer wait in the ledger. */
export type StepEnd =
  | {
    kind: "answered";
    calls: readonly StepCall[];
    finishReason: ModelFinishReason;
    isRefusal: boolean;
  }
  | { kind: "failed"; error: HubError }
  | { kind: "aborted" };

/**
 * Gets one whole answer of the model. An answer that breaks off is asked for again, and what it had said is void from
 * the moment the next one speaks; a call that fails before it says anything was retried by the router already.
 * The first call is under way while the step's start is written.
 */
export async function* runStep(
  run: AgentRun,
  ledger: RunLedger,
  plan: StepPlan,
): AsyncGenerator<LoopBatch, StepEnd, void> {
  const { step } = plan;
  let spoke = false;
  let fullSinceMs: number | null = null;
  for (let attempt = 1;;) {
    const writer = createWriter(run, ledger, plan);
    const { signal, runId, sessionId } = run;
    const { projection } = plan;
    const context = {
      signal,
      runId,
      sessionId,
      step,
      stepAttempt: attempt - 1,
      onUsed: (use: ModelUse) => ledger.note(use),
      ...(projection === undefined ? {} : { projection }),
    };
    const reader = new ModelReader(run.callModel, plan.request, context);
    if (attempt > 1 && fullSinceMs === null) ledger.startAttempt(step, attempt);
    let said = false;
    /** Once per attempt, before its first events. */
    const begin = () => {
      if (said) return;
      said = true;
      if (spoke) ledger.voidStep(step);
    };
    let error: unknown;
    try {
      if (ledger.hasMore) yield ledger.take();
      for (;;) {
        const read = await reader.read();
        if (read === null) {
          throw new HubError(
            "upstream_cut",
            "The model's answer ended without a finish reason, so it may be incomplete",
          );
        }
        const events = writer.push(read);
        const { finishReason } = writer;
        if (finishReason !== null) {
          const { calls, isRefusal } = writer;
          await reader.drain();
          begin();
          ledger.add([...events, ...writer.end()]);
          return { kind: "answered", calls, finishReason, isRefusal };
        }
        if (events.length === 0) continue;
        begin();
        ledger.add(events);
        yield ledger.take();
      }
    } catch (thrown) {
      error = thrown;
    } finally {
      await reader.close();
      ledger.book(writer);
    }
    if (run.signal.aborted) return { kind: "aborted" };
    const failure = toHubError(error);
    const heard = writer.responder !== null || writer.emitted;
    spoke ||= said;
    run.log.warn("A model call failed", { step, attempt, heard, error: failure });
    let delayMs = backoffMs(run, failure, attempt);
    const goesOn = step > 0 || attempt > 1 || run.resume !== undefined;
    if (goesOn && !heard && PASSING.has(failure.code)) {
      // Nobody was asked, so that this is no attempt; what the run has done so far is worth a wait.
      fullSinceMs ??= run.clock.monotonic();
      const leftMs = fullSinceMs + MAX_FULL_MS - run.clock.monotonic();
      if (leftMs <= 0) return { kind: "failed", error: failure };
      delayMs = Math.min(delayMs, leftMs);
    } else {
      if (!heard || attempt >= MAX_ATTEMPTS || !mayRetry(failure)) {
        return { kind: "failed", error: failure };
      }
      fullSinceMs = null;
      attempt++;
    }
    try {
      await sleep(run.clock, delayMs, run.signal);
    } catch {
      return { kind: "aborted" };
    }
  }
}

function createWriter(run: AgentRun, ledger: RunLedger, plan: StepPlan): StepWriter {
  return new StepWriter({
    firstPart: ledger.nextPart,
    mintCallId: () => run.ids.next("call"),
    toolName: (wireName) => plan.tools.shownName(wireName),
    ignoreCalls: plan.ignoreCalls,
    inputBounds: { ofCall: MAX_CALL_INPUT_LENGTH, ofAnswer: MAX_ANSWER_INPUT_LENGTH },
  });
}

function mayRetry(failure: HubError): boolean {
  return failure.kind.retryable && (failure.retryAfterMs ?? 0) <= MAX_RETRY_AFTER_MS;
}

/** Full jitter over a span that doubles, and never before the moment the provider named. */
function backoffMs(run: AgentRun, failure: HubError, attempt: number): number {
  const jitterMs = run.random() * FIRST_BACKOFF_MS * 2 ** (attempt - 1);
  return Math.max(Math.round(jitterMs), failure.retryAfterMs ?? 0);
}
