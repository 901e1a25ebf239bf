import { HubError, toHubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import { steeringEvent } from "../core/steering.ts";
import type { AgentRun, RunResume } from "./agent_run.ts";
import { answerStep } from "./answer_step.ts";
import { askFor } from "./approvals.ts";
import { Conversation } from "./conversation.ts";
import { heldEnding, holdAnswer, isRepairing, mustRepair } from "./hold_answer.ts";
import { judgeAgain, judgeCalls, type JudgedCall, type ReadyCall } from "./judge_calls.ts";
import type { LoopBatch, ToolCallRecord } from "./loop_batch.ts";
import { systemPrompt } from "./model_request.ts";
import { showPlan } from "./preflight.ts";
import { RepeatDetector, REPEATS_TO_CONCLUDE } from "./repeat_detector.ts";
import { earlierCalls, findResumePoint } from "./resume.ts";
import { BUDGET_SPENT, BudgetWatch, TIME_IS_OVER, withDeadline } from "./run_budget.ts";
import { RunLedger } from "./run_ledger.ts";
import { type ConcludeReason, stepReason } from "./step_reason.ts";
import { StepRequests } from "./step_requests.ts";
import { type Ending, failed } from "./terminal.ts";
import { runTools } from "./tool_phase.ts";
import { NO_ROOM } from "./tool_result_text.ts";
import { cancelledCall } from "./tool_runner.ts";
import { beginOffer } from "./tool_offer.ts";
import { createToolSet } from "./tool_set.ts";

/** Steps in a row without one usable call before the next step is the last. */
const INVALID_TO_CONCLUDE = 3;

/** Where the loop stands between two steps. */
interface Place {
  /** The next step. */
  step: number;
  /** The first step of this turn: `maxSteps` counts from it. */
  turnStart: number;
  /** The model has answered, and goes on only for what was said since. */
  isAnswered: boolean;
  /** Why the next step is the last one, if it is. */
  concludes: ConcludeReason | null;
  invalidSteps: number;
  detector: RepeatDetector;
}

/**
 * Runs an agent: calls the model, executes the tools it asks for, feeds the results back, until it answers and nobody
 * has said anything more. Yields what is known at once as one batch, which must be durable before the next one is asked
 * for. Never throws: every run begins with `start` and ends with the terminal sequence, whatever fails. With `resume` it
 * goes on where a former owner has left it. Rules: docs/events.md.
 */
export async function* runAgent(asked: AgentRun): AsyncGenerator<LoopBatch, void, void> {
  const ledger = new RunLedger(asked);
  const { run, release } = withDeadline(asked);
  try {
    yield* takeTurns(run, ledger);
  } finally {
    release();
  }
}

async function* takeTurns(
  run: AgentRun,
  ledger: RunLedger,
): AsyncGenerator<LoopBatch, void, void> {
  const place = turnAt(0);
  const budgets = new BudgetWatch(run, ledger);
  for (let isNew = true;; isNew = false) {
    let ending: Ending | null;
    try {
      ending = yield* takeSteps(run, ledger, {
        place,
        resume: isNew ? run.resume : undefined,
        budgets,
      });
    } catch (error) {
      run.log.error("The agent loop failed", { runId: run.runId, error });
      ending = failed(toHubError(error));
    }
    if (ending === null) {
      if (ledger.hasMore) yield ledger.take();
      return;
    }
    ledger.add(budgets.takeLate());
    ending = heldEnding(run, ledger, ending);
    if (run.signal.aborted && ending.kind === "error") ending = stopped(run.signal);
    if (yield* end(run, ledger, ending)) return;
    Object.assign(place, turnAt(place.step), { isAnswered: true });
  }
}

function turnAt(step: number): Place {
  return {
    step,
    turnStart: step,
    isAnswered: false,
    concludes: null,
    invalidSteps: 0,
    detector: new RepeatDetector(),
  };
}

/** Gives true when the run has ended; false when something that was said meanwhile makes it go on. */
async function* end(
  { steering }: AgentRun,
  ledger: RunLedger,
  ending: Ending,
): AsyncGenerator<LoopBatch, boolean, void> {
  for (;;) {
    const isSpent = ending.kind === "finish" && ending.isSpent === true;
    const mayGoOn = ending.kind === "finish" && !isSpent;
    if (mayGoOn && await steering?.waits()) return false;
    const unread = mayGoOn ? [] : await steering?.takeAll() ?? [];
    yield ledger.takeEnd(isSpent && unread.length > 0 ? unheard(ending) : ending, unread);
    if (steering?.isBehind !== true) return true;
  }
}

/** Gives how the run ends, or null when it is left to another owner. */
async function* takeSteps(
  run: AgentRun,
  ledger: RunLedger,
  { place, resume, budgets }: {
    place: Place;
    resume: RunResume | undefined;
    budgets: BudgetWatch;
  },
): AsyncGenerator<LoopBatch, Ending | null, void> {
  const { settings, signal } = run;
  const tools = createToolSet(run.tools, run.wireNames);
  const conversation = new Conversation({
    system: systemPrompt(settings.systemPrompt, run.instructions ?? [], run.answer?.instruction),
    history: run.history,
    toWire: (name) => run.wireNames.toWire(name),
  });
  const requests = new StepRequests(run, ledger, { conversation, tools, budgets });
  const point = resume === undefined ? null : findResumePoint(ledger.fold, resume, { tools });
  if (point !== null) {
    place.step = point.step;
    place.turnStart = point.turnStart;
    for (const { keys, isInvalid } of earlierCalls(ledger.fold, point, tools)) {
      seeCalls(place, { isInvalid, repeats: place.detector.observe(keys) });
    }
    ledger.closeQuestions();
    for (const { events, record } of point.verdicts) {
      ledger.add(events, record === null ? [] : [record]);
    }
    // At once: only a reset may skip the numbers that the former owner has shown without committing them.
    if (point.isReset) ledger.resetStep(point.step);
    if (resume?.lost !== undefined) ledger.addLost(resume.lost);
    const again = await judgeAgain(run, point.unjudged, ledger.message());
    const judged = await addJudged(run, ledger, { calls: again, budgets });
    const calls = [...point.calls, ...judged.ready].sort((a, b) => a.record.index - b.record.index);
    yield* runTools(run, ledger, { calls, budgets });
    const isEnded = point.ending?.kind !== "finish" || !mustRepair(ledger.message());
    if (point.ending !== null && isEnded) return point.ending;
    const asked = [...point.asked, ...judged.asked];
    if (asked.length > 0) return yield* pause(run, ledger, asked);
  }
  for (;;) {
    const { step, turnStart } = place;
    const isBegun = point?.isReset === true && step === point.step;
    ledger.add(budgets.takeLate());
    if (signal.aborted) return stopped(signal);
    if (run.mustLeave?.() === true) return null;
    if (!isBegun) {
      const said = await run.steering?.takeNext({ queued: place.isAnswered }) ?? [];
      ledger.add(said.map((text) => steeringEvent(text, "applied")));
      place.isAnswered = false;
    }
    if (step - turnStart >= settings.maxSteps - 1) place.concludes ??= "max-steps";
    const mayConclude = tools.definitions.length > 0 || step > turnStart;
    const spent = budgets.verdict(step);
    if (spent.may === "end") return { kind: "finish", finishReason: spent.reason, isSpent: true };
    if (spent.may === "conclude") place.concludes ??= spent.reason;
    if (!isBegun) {
      if (step === 0 && run.offer !== undefined) ledger.add([beginOffer(run, run.offer)]);
      ledger.startStep(step);
    }
    const wish = { step, mayConclude, concludes: mayConclude ? place.concludes : null };
    const ignoreCalls = place.concludes !== null || settings.toolChoice === "none" ||
      isRepairing(ledger.message());
    const question = { requests, wish, tools, ignoreCalls };
    const { end, concludes } = yield* answerStep(run, ledger, question);
    if (end.kind === "aborted") return stopped(signal);
    if (end.kind === "failed") return failed(end.error);
    place.step++;
    const isRefused = run.answer !== undefined && end.isRefusal && end.calls.length === 0;
    const finishReason = isRefused
      ? "content-filter"
      : stepReason(end.finishReason, end.calls.length);
    if (end.calls.length === 0) {
      ledger.finishStep({ step, finishReason });
      if (holdAnswer(run, ledger, { step, finishReason })) continue;
      return { kind: "finish", finishReason: concludes ?? finishReason };
    }
    const { calls, repeats } = await judgeCalls(run, end.calls, {
      step,
      finishReason: end.finishReason,
      tools,
      detector: place.detector,
      message: ledger.message(),
    });
    ledger.add(calls.map(inputEvent));
    ledger.finishStep({ step, finishReason });
    const { asked, ready } = await addJudged(run, ledger, { calls, budgets });
    if (finishReason === "content-filter") return { kind: "finish", finishReason };
    seeCalls(place, { isInvalid: calls.every(({ kind }) => kind === "invalid"), repeats });
    if (ready.length > 0 && await requests.refusesCalls(step)) {
      place.concludes ??= "token-limit";
      for (const call of ready) ledger.refuse(call.record, NO_ROOM);
    } else if (budgets.verdict(step + 1).may === "end") {
      for (const call of ready) ledger.refuse(call.record, BUDGET_SPENT);
    } else yield* runTools(run, ledger, { calls: ready, budgets });
    if (asked.length > 0) return yield* pause(run, ledger, asked);
  }
}

/** A model that only calls what cannot be called, or the same again and again, has to conclude. */
function seeCalls(
  place: Place,
  { isInvalid, repeats }: { isInvalid: boolean; repeats: number },
): void {
  place.invalidSteps = isInvalid ? place.invalidSteps + 1 : 0;
  if (place.invalidSteps >= INVALID_TO_CONCLUDE || repeats >= REPEATS_TO_CONCLUDE) {
    place.concludes = "max-steps";
  }
}

/** Adds what judged calls have come to, and asks people about those that want it; the others may run. */
async function addJudged(
  run: AgentRun,
  ledger: RunLedger,
  { calls, budgets }: { calls: readonly JudgedCall[]; budgets: BudgetWatch },
): Promise<{ asked: ToolCallRecord[]; ready: ReadyCall[] }> {
  const done = calls.filter(({ kind }) => kind === "invalid" || kind === "refused");
  ledger.add(calls.flatMap(refusalEvents), done.map(({ record }) => record));
  const asked = calls.filter((call) => call.kind === "asked");
  for (const call of asked) {
    const plan = await showPlan(run, call, ledger.spent());
    const { events, approval } = askFor(run, call, { plan, timeLeftMs: budgets.timeLeftMs });
    ledger.ask(events, call.record, approval);
  }
  const ready = calls.filter((call) => call.kind === "ready");
  return { asked: asked.map(({ record }) => record), ready };
}

/** Leaves the run to wait for people, and to whoever goes on with it then; one that was stopped waits for nobody. */
function* pause(
  { signal }: AgentRun,
  ledger: RunLedger,
  asked: readonly ToolCallRecord[],
): Generator<LoopBatch, Ending | null, void> {
  if (!signal.aborted) {
    yield ledger.takePause();
    return null;
  }
  // What ends the run closes the questions and the calls in its log.
  ledger.add([], asked.map((record) => cancelledCall({ record }).record));
  return stopped(signal);
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
  if (reason === TIME_IS_OVER) return { kind: "finish", finishReason: "max-time", isSpent: true };
  if (typeof reason === "string" && reason !== "") return { kind: "abort", reason };
  if (reason instanceof HubError) return { kind: "abort", reason: reason.message };
  return { kind: "abort", reason: "The run was stopped" };
}

/** A budget has ended the run before what was said to it could be read. */
function unheard(ending: Ending): Ending {
  const why = ending.kind === "finish" ? ending.finishReason : ending.kind;
  return { kind: "abort", reason: `The budget of the run is used up (${why})` };
}
