import { addCosts } from "../core/cost.ts";
import { shapesContext } from "../core/context_events.ts";
import type { HubEvent } from "../core/event.ts";
import { createFold, type Fold } from "../core/fold.ts";
import { isUsed, lostCallsEvent, type ModelUse } from "../core/model_use.ts";
import { OpenQuestions } from "../core/open_questions.ts";
import { readQuestion } from "../core/run_question.ts";
import type { Responder, StepWriter } from "../core/step_writer.ts";
import type { SteeringText } from "../core/steering.ts";
import type { UIMessage } from "../core/ui_message.ts";
import { usedBeside } from "../core/used_beside.ts";
import { addUsage, NO_USAGE, type Usage } from "../core/usage.ts";
import type { SpentFacts } from "./preflight.ts";
import type { AgentRun } from "./agent_run.ts";
import type {
  ApprovalRecord,
  LoopBatch,
  QuestionRecord,
  StepRecord,
  ToolCallRecord,
} from "./loop_batch.ts";
import { outputBytesOf } from "./output_bytes.ts";
import { replayInto } from "./resume.ts";
import { type Ending, isEnd, terminalEvents } from "./terminal.ts";

/**
 * What a run has said and used so far. Facts are added as they become known and leave together with `take`, so that
 * one statement writes them, and nothing that was added can miss the log, whatever fails in between.
 */
export class RunLedger {
  readonly #run: AgentRun;
  readonly #fold = createFold();
  #events: HubEvent[] = [];
  #calls = new Map<string, ToolCallRecord>();
  #steps = new Map<number, StepRecord>();
  #approvals: ApprovalRecord[] = [];
  #questions = new Map<string, QuestionRecord>();
  readonly #open = new OpenQuestions();
  #nextPart = 0;
  #stepUsage: Usage = NO_USAGE;
  /** What calls were told to have used that is not booked yet. */
  #noted: ModelUse[] = [];
  #isEstimated = false;
  #attempt = 1;
  #costMicros: number | null = 0;
  #responder: Responder | null = null;
  #outputBytes = 0;
  #subSteps = 0;
  /** Cost of the step that is open. */
  #stepCostMicros: number | null = 0;

  constructor(run: AgentRun) {
    this.#run = run;
    const { messageId, runId, sessionId, model, resume } = run;
    if (resume === undefined || resume.events.length === 0) {
      this.add([{ type: "start", messageId, runId, sessionId, model }]);
      return;
    }
    // Each part that anybody was shown has taken a number of the log, so that none has such an id.
    this.#nextPart = Math.max(replayInto(this.#fold, resume.events), resume.shownTo ?? 0);
    for (const event of resume.events) {
      this.#open.see(event);
      this.#outputBytes += outputBytesOf(event);
      this.#subSteps += usedBeside(event)?.steps ?? 0;
    }
    this.#isEstimated = resume.estimated === true;
    // The log does not say what the steps before have cost.
    if (this.#fold.facts().steps.length > 0) this.#costMicros = resume.costMicros;
  }

  /** UTF-8 bytes that models and tools have written so far. */
  get outputBytes(): number {
    return this.#outputBytes;
  }

  /** Steps of runs that its calls have begun. */
  get subSteps(): number {
    return this.#subSteps;
  }

  /** What the run has cost so far; null when a part of it is unknown. */
  get costMicros(): number | null {
    return this.#costMicros;
  }

  /** What the run has said, for whoever looks where it stands. */
  get fold(): Fold {
    return this.#fold;
  }

  /** Number of the next part of the message. */
  get nextPart(): number {
    return this.#nextPart;
  }

  /** True when something waits for `take`. */
  get hasMore(): boolean {
    return this.#events.length > 0 || this.#calls.size > 0 || this.#steps.size > 0 ||
      this.#approvals.length > 0;
  }

  /** The message as far as it is known, taken or not. */
  message(): UIMessage {
    return this.#fold.message();
  }

  /** Adds events, and journal rows that belong with them; a later row of a call replaces an earlier one. */
  add(events: readonly HubEvent[], calls: readonly ToolCallRecord[] = []): void {
    for (const event of events) {
      for (const closing of this.#open.before(event)) this.#put(closing);
      this.#put(event);
    }
    for (const call of calls) this.#calls.set(call.toolCallId, call);
  }

  /** Closes the questions that a former owner has left open: who would have got the answer is gone. */
  closeQuestions(): void {
    this.add(this.#open.closings());
  }

  /** Asks a person about a call, which is added with it. */
  ask(events: readonly HubEvent[], call: ToolCallRecord, approval: ApprovalRecord): void {
    this.add(events, [call]);
    this.#approvals.push(approval);
  }

  /** What the run has used so far. */
  spent(): SpentFacts {
    const { steps, usage } = this.fold.facts();
    return { steps, usage, costMicros: this.costMicros };
  }

  /** Answers a call that does not run. */
  refuse(call: ToolCallRecord, errorText: string): void {
    const { toolCallId } = call;
    this.add([{ type: "tool-output-error", toolCallId, errorText }], [
      { ...call, state: "failed", errorText },
    ]);
  }

  /** Everything that waits; behind it the run waits for answers. */
  takePause(): LoopBatch {
    const { approvals } = this.#fold.facts();
    const decisions = approvals.filter(({ response }) => response !== undefined).length;
    return { ...this.take(), pause: { decisions, costMicros: this.#costMicros } };
  }

  /** Everything that was added since the last time. */
  take(): LoopBatch {
    const batch: LoopBatch = { events: this.#events };
    if (this.#calls.size > 0) batch.calls = [...this.#calls.values()];
    if (this.#steps.size > 0) batch.steps = [...this.#steps.values()];
    if (this.#approvals.length > 0) batch.approvals = this.#approvals;
    if (this.#questions.size > 0) batch.questions = [...this.#questions.values()];
    this.#events = [];
    this.#calls = new Map();
    this.#steps = new Map();
    this.#approvals = [];
    this.#questions = new Map();
    return batch;
  }

  /** Begins a step. */
  startStep(step: number): void {
    this.add([{ type: "step-start", step }]);
    this.#stepUsage = NO_USAGE;
    this.startAttempt(step, 1);
  }

  /** Begins a step again that a former owner has left half done. */
  resetStep(step: number): void {
    this.voidStep(step);
    this.#stepCostMicros = 0;
    this.#stepUsage = NO_USAGE;
    this.startAttempt(step, 2);
  }

  /** Voids what a step has said so far. What its request is made with holds for its next attempt too. */
  voidStep(step: number): void {
    const { parts } = this.#fold.message();
    const begun = parts.findLastIndex(({ type }) => type === "step-start");
    const kept = parts.slice(begun + 1).flatMap((part) =>
      part.type === "data" && shapesContext(part) ? [part] : []
    );
    this.add([{ type: "step-reset", step }, ...kept]);
  }

  /** Notes the `attempt`-th model call of a step, counted from 1. */
  startAttempt(step: number, attempt: number): void {
    this.#attempt = attempt;
    if (attempt === 1) this.#stepCostMicros = 0;
    this.#steps.set(step, { step, state: "started", attempt });
  }

  /** Notes what a try of a model call has used. */
  note(use: ModelUse): void {
    this.#noted.push(use);
  }

  /** Books what one model call used, whole or not. */
  book(writer: StepWriter): void {
    this.#nextPart = writer.nextPart;
    this.#responder = writer.responder ?? this.#responder;
    const hasAnswered = writer.responder !== null || writer.emitted;
    if (this.#noted.length > 0) this.#bookNoted();
    else if (hasAnswered) {
      const { usage, costMicros } = writer;
      this.#addToStep({ usage: usage ?? NO_USAGE, costMicros, estimated: false });
    }
  }

  /** Adds what calls of former owners have used that the log does not have. */
  addLost(use: ModelUse): void {
    if (isUsed(use)) this.add([lostCallsEvent(use)]);
  }

  #bookNoted(): void {
    for (const use of this.#noted.splice(0)) this.#addToStep(use);
  }

  #addToStep({ usage, costMicros, estimated }: ModelUse): void {
    this.#stepUsage = addUsage(this.#stepUsage, usage);
    // A call that answered and has no price leaves the run's cost unknown, never too low.
    this.#costMicros = addCosts(this.#costMicros, costMicros);
    this.#stepCostMicros = addCosts(this.#stepCostMicros, costMicros);
    this.#isEstimated ||= estimated;
  }

  /** Ends a step whose answer is whole. */
  finishStep(event: Omit<Extract<HubEvent, { type: "step-finish" }>, "type" | "usage">): void {
    const usage = { ...this.#stepUsage };
    this.add([{ type: "step-finish", ...event, usage }]);
    this.#finishRecord({ ...event, usage });
  }

  /** Everything that waits, and the terminal sequence. The end itself is not added: it may be held back. */
  takeEnd(ending: Ending, undelivered: readonly SteeringText[]): LoopBatch {
    // Of two that were asked at once, the one that was given up may tell after the other's answer was booked.
    if (this.#fold.open().step !== null) this.#bookNoted();
    for (const use of this.#noted.splice(0)) this.addLost(use);
    const events = terminalEvents(this.#fold, ending, {
      stepUsage: { ...this.#stepUsage },
      costMicros: this.#costMicros,
      estimated: this.#isEstimated,
      metadata: this.#responder === null
        ? { model: this.#run.model, provider: "" }
        : { model: this.#responder.model, provider: this.#responder.provider },
      undelivered,
    });
    this.add(events.filter((event) => !isEnd(event)));
    for (const event of events) if (event.type === "step-finish") this.#finishRecord(event);
    const batch = this.take();
    batch.events.push(...events.filter(isEnd));
    return batch;
  }

  #put(event: HubEvent): void {
    this.#fold.apply(event);
    this.#outputBytes += outputBytesOf(event);
    this.#countBeside(event);
    this.#events.push(event);
    this.#open.see(event);
    const question = event.type === "data" ? readQuestion(event) : null;
    if (question === null) return;
    const timeoutMs = this.#run.questions?.timeoutMs ?? 0;
    this.#questions.set(question.questionId, { ...question, timeoutMs });
  }

  #countBeside(event: HubEvent): void {
    const used = usedBeside(event);
    if (used === null) return;
    this.#subSteps += used.steps;
    this.#costMicros = addCosts(this.#costMicros, used.costMicros);
    this.#isEstimated ||= used.estimated === true;
  }

  #finishRecord(event: Omit<Extract<HubEvent, { type: "step-finish" }>, "type">): void {
    const { step, finishReason, usage } = event;
    const record: StepRecord = {
      step,
      state: "done",
      attempt: this.#attempt,
      usage,
      costMicros: this.#stepCostMicros,
      finishReason,
      ...(this.#responder ?? {}),
    };
    this.#steps.set(step, record);
  }
}
