import { HubError, toHubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import type { ModelMessage } from "../core/model.ts";
import type { AgentRun } from "./agent_run.ts";
import { historyToModel } from "./history_to_model.ts";
import { judgeCalls, type JudgedCall, type ReadyCall } from "./judge_calls.ts";
import type { LoopBatch } from "./loop_batch.ts";
import { buildRequest, systemPrompt } from "./model_request.ts";
import { repairHistory } from "./repair_history.ts";
import { RepeatDetector, REPEATS_TO_CONCLUDE } from "./repeat_detector.ts";
import { findResumePoint } from "./resume.ts";
import { RunLedger } from "./run_ledger.ts";
import { runStep, type StepEnd } from "./step.ts";
import { stepReason } from "./step_reason.ts";
import type { Ending } from "./terminal.ts";
import { runTools } from "./tool_phase.ts";
import { createToolSet } from "./tool_set.ts";

/** Steps in a row without one usable call before the next step is the last. */
const INVALID_TO_CONCLUDE = 3;

/**
 * Runs an agent: calls the model, executes the tools it asks for, feeds the results back, until it answers.
 * Yields what is known at once as one batch, which must be durable before the next one is asked for. Never throws:
 * every run begins with `start` and ends with the terminal sequence, whatever fails. With `resume` it goes on where a
 * former owner has left it. Rules: docs/events.md.
 */
export async function* runAgent(run: AgentRun): AsyncGenerator<LoopBatch, void, void> {
  const ledger = new RunLedger(run);
  let ending: Ending | null;
  try {
    ending = yield* takeSteps(run, ledger);
  } catch (error) {
    run.log.error("The agent loop failed", { runId: run.runId, error });
    ending = failed(toHubError(error));
  }
  if (ending === null) {
    if (ledger.hasMore) yield ledger.take();
    return;
  }
  if (run.signal.aborted && ending.kind === "error") ending = stopped(run.signal);
  ledger.end(ending);
  yield ledger.take();
}

/** Gives how the run ends, or null when it is left to another owner. */
async function* takeSteps(
  run: AgentRun,
  ledger: RunLedger,
): AsyncGenerator<LoopBatch, Ending | null, void> {
  const { settings, signal } = run;
  const toWire = (name: string) => run.wireNames.toWire(name);
  const tools = createToolSet(run.tools, run.wireNames);
  const detector = new RepeatDetector();
  const before: ModelMessage[] = [
    ...systemPrompt(settings.systemPrompt, run.instructions ?? []),
    ...historyToModel(run.history, toWire),
  ];
  let mustConclude = false;
  let invalidSteps = 0;
  const point = run.resume === undefined
    ? null
    : findResumePoint(ledger.fold, run.resume, { tools });
  let hasCalled = point?.hasCalled ?? false;
  if (point !== null) {
    for (const { event, record } of point.verdicts) {
      ledger.add([event], record === null ? [] : [record]);
    }
    // At once: only a reset may skip the numbers that the former owner has shown without committing them.
    if (point.isReset) ledger.resetStep(point.step);
    yield* runTools(run, ledger, point.calls);
    if (point.ending !== null) return point.ending;
  }
  for (let step = point?.step ?? 0;; step++) {
    if (signal.aborted) return stopped(signal);
    if (run.mustLeave?.() === true) return null;
    const isLast = mustConclude || step >= settings.maxSteps - 1;
    const concluding = isLast && (tools.definitions.length > 0 || step > 0);
    const messages = repairHistory([...before, ...historyToModel([ledger.message()], toWire)]);
    const facts = { messages, tools, toWire, concluding, hasCalled };
    const request = buildRequest(settings, facts);
    if (!point?.isReset || step !== point.step) ledger.startStep(step);
    const ignoreCalls = isLast || settings.toolChoice === "none";
    const end: StepEnd = yield* runStep(run, ledger, { step, request, tools, ignoreCalls });
    if (end.kind === "aborted") return stopped(signal);
    if (end.kind === "failed") return failed(end.error);
    const finishReason = stepReason(end.finishReason, end.calls.length);
    if (end.calls.length === 0) {
      ledger.finishStep({ step, finishReason });
      return { kind: "finish", finishReason: concluding ? "max-steps" : finishReason };
    }
    hasCalled = true;
    const { calls, repeats } = await judgeCalls(run, end.calls, {
      step,
      finishReason: end.finishReason,
      tools,
      detector,
    });
    ledger.add(calls.map(inputEvent));
    ledger.finishStep({ step, finishReason });
    const done = calls.filter((call) => call.kind !== "ready");
    ledger.add(calls.flatMap(refusalEvents), done.map(({ record }) => record));
    if (finishReason === "content-filter") return { kind: "finish", finishReason };
    invalidSteps = calls.every(({ kind }) => kind === "invalid") ? invalidSteps + 1 : 0;
    mustConclude ||= invalidSteps >= INVALID_TO_CONCLUDE || repeats >= REPEATS_TO_CONCLUDE;
    yield* runTools(run, ledger, calls.filter((call): call is ReadyCall => call.kind === "ready"));
  }
}

function inputEvent(call: JudgedCall): HubEvent {
  const { toolCallId, toolName, inputText } = call.record;
  if (call.kind !== "invalid") {
    return { type: "tool-input-available", toolCallId, toolName, input: call.input };
  }
  const { errorText } = call;
  return { type: "tool-input-error", toolCallId, toolName, input: inputText, errorText };
}

function refusalEvents(call: JudgedCall): HubEvent[] {
  if (call.kind !== "refused") return [];
  const { toolCallId } = call.record;
  const type = call.denied ? "tool-output-denied" : "tool-output-error";
  return [{ type, toolCallId, errorText: call.errorText }];
}

function stopped(signal: AbortSignal): Ending {
  const reason: unknown = signal.reason;
  if (typeof reason === "string" && reason !== "") return { kind: "abort", reason };
  if (reason instanceof HubError) return { kind: "abort", reason: reason.message };
  return { kind: "abort", reason: "The run was stopped" };
}

function failed(error: HubError): Ending {
  const { message: errorText, clientCode: code, kind } = error;
  return { kind: "error", errorText, code, retryable: kind.retryable };
}
