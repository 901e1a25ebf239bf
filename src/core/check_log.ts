import { FINISH_REASONS, type HubEvent, isTransient, type SequencedEvent } from "./event.ts";
import { mayLeaveOut } from "./lost_events.ts";
import { isQuestion, readQuestion } from "./run_question.ts";
import { isSteering, readSteering, type SteeringFate } from "./steering.ts";
import { usageAfter } from "./used_beside.ts";
import { NO_USAGE, type Usage } from "./usage.ts";

/** What is known of the log that is checked. */
export interface CheckLogOptions {
  /** False for the beginning of a run that is still going on: nothing has to be closed yet. Default true. */
  complete?: boolean;
}

interface Call {
  toolName: string;
  step: number | null;
  state: "streaming" | "ready" | "final" | "void";
}

/**
 * Checks the invariants I1 to I16 of a run's log and gives one line per breach, such as `I6 at 12: empty delta`; an
 * empty list means that the log is valid. The log must begin with its first event.
 *
 * I1 knows one exception, in `mayLeaveOut`: clients may have seen events that are not in the log under the numbers skipped.
 */
export function checkLog(
  events: readonly SequencedEvent[],
  options: CheckLogOptions = {},
): string[] {
  const check = new LogCheck();
  for (const { seq, event } of events) check.next(seq, event);
  if (options.complete ?? true) check.end();
  return check.breaches;
}

class LogCheck {
  readonly breaches: string[] = [];
  #seq = 0;
  #count = 0;
  #finished = false;
  /** The event after which only `finish` may come. */
  #ending: "error" | "abort" | null = null;
  #step: number | null = null;
  #nextStep = 0;
  readonly #open = new Map<string, "text" | "reasoning">();
  readonly #usedIds = new Set<string>();
  readonly #calls = new Map<string, Call>();
  /** Call of each approval, or null once it is answered. */
  readonly #approvals = new Map<string, string | null>();
  readonly #said = new Set<string>();
  /** Call of each question that tools have asked, or null once it is closed. */
  readonly #questions = new Map<string, string | null>();
  /** What was said since the last step began: `applied` wants a step, `undelivered` an error or a stop. */
  #saidState: SteeringFate | null = null;
  #usage: Usage = { ...NO_USAGE };

  next(seq: number, event: HubEvent): void {
    this.#checkPlace(seq, event);
    if (this.#finished) return;
    if (this.#ending !== null && event.type !== "finish") {
      this.#breach("I3", `${event.type} after ${this.#ending}`);
    }
    this.#usage = usageAfter(this.#usage, event);
    this.#checkEvent(event);
  }

  end(): void {
    if (this.#count === 0) this.#breach("I2", "no start");
    if (!this.#finished) this.#breach("I2", "no finish");
  }

  #breach(invariant: string, what: string): void {
    this.breaches.push(`${invariant} at ${this.#seq}: ${what}`);
  }

  #checkPlace(seq: number, event: HubEvent): void {
    const wanted = this.#seq + 1;
    const mayJump = mayLeaveOut(event) && Number.isSafeInteger(seq) && seq > wanted;
    this.#seq = seq;
    if (seq !== wanted && !mayJump) this.#breach("I1", `the number after ${wanted - 1} is wrong`);
    if (isTransient(event)) this.#breach("I1", "a transient event has no number");
    const isFirst = this.#count++ === 0;
    if (isFirst !== (event.type === "start")) {
      this.#breach("I2", isFirst ? `${event.type} before start` : "a second start");
    }
    if (this.#finished) this.#breach("I2", `${event.type} after finish`);
  }

  #checkEvent(event: HubEvent): void {
    switch (event.type) {
      case "start":
      case "source-url":
      case "file":
        return;
      case "data":
        return this.#takeData(event);
      case "step-start":
        if (this.#step !== null) this.#breach("I4", `step ${event.step} inside ${this.#step}`);
        if (event.step !== this.#nextStep) this.#breach("I4", `step ${event.step} out of order`);
        if (this.#saidState === "undelivered") {
          this.#breach("I15", "a step after an undelivered text");
        }
        this.#saidState = null;
        this.#step = event.step;
        this.#nextStep = event.step + 1;
        return;
      case "step-finish":
        return this.#finishStep(event);
      case "step-reset":
        return this.#resetStep(event.step);
      case "text-start":
      case "reasoning-start":
        this.#needStep(event.type);
        if (this.#usedIds.has(event.id)) this.#breach("I5", `${event.id} begins again`);
        this.#usedIds.add(event.id);
        this.#open.set(event.id, event.type === "text-start" ? "text" : "reasoning");
        return;
      case "text-delta":
      case "text-end":
        return this.#continuePart(event, "text");
      case "reasoning-delta":
      case "reasoning-end":
        return this.#continuePart(event, "reasoning");
      case "tool-input-start":
      case "tool-input-delta":
      case "tool-input-available":
      case "tool-input-error":
        return this.#takeInput(event);
      case "tool-output-available":
      case "tool-output-error":
      case "tool-output-denied":
        return this.#takeOutput(event);
      case "tool-approval-request":
        if (this.#calls.get(event.toolCallId)?.state !== "ready") {
          this.#breach("I11", `${event.toolCallId} does not wait`);
        }
        if (this.#approvals.has(event.approvalId)) this.#breach("I11", `${event.approvalId} twice`);
        this.#approvals.set(event.approvalId, event.toolCallId);
        return;
      case "tool-approval-response":
        if (typeof this.#approvals.get(event.approvalId) !== "string") {
          this.#breach("I11", `nobody asked for ${event.approvalId}`);
        }
        this.#approvals.set(event.approvalId, null);
        return;
      case "error":
      case "abort":
        this.#ending = event.type;
        return;
      case "finish":
        return this.#finishRun(event);
    }
  }

  #needStep(type: string): void {
    if (this.#step === null) this.#breach("I4", `${type} outside a step`);
  }

  #continuePart(
    event: { type: string; id: string; delta?: string },
    kind: "text" | "reasoning",
  ): void {
    this.#needStep(event.type);
    if (this.#open.get(event.id) !== kind) {
      this.#breach("I5", `${event.type} for ${event.id}, which is not open as ${kind}`);
    }
    if (event.delta === "") this.#breach("I6", "empty delta");
    if (event.delta === undefined) this.#open.delete(event.id);
  }

  #takeInput(event: Extract<HubEvent, { type: `tool-input-${string}` }>): void {
    this.#needStep(event.type);
    const known = this.#calls.get(event.toolCallId);
    const isKnown = known !== undefined;
    if (event.type === "tool-input-delta") {
      if (known?.state !== "streaming") this.#breach("I9", `${event.toolCallId} takes no input`);
      if (event.inputTextDelta === "") this.#breach("I6", "empty delta");
      return;
    }
    const isStart = event.type === "tool-input-start";
    if (isKnown && (isStart || known.state !== "streaming")) {
      this.#breach("I9", `${event.toolCallId} has its input already`);
    } else if (isKnown && known.toolName !== event.toolName) {
      this.#breach("I9", `${event.toolCallId} was ${known.toolName}, is ${event.toolName}`);
    }
    const state = isStart ? "streaming" : event.type === "tool-input-error" ? "final" : "ready";
    this.#calls.set(event.toolCallId, { toolName: event.toolName, step: this.#step, state });
  }

  #takeOutput(event: Extract<HubEvent, { type: `tool-output-${string}` }>): void {
    const call = this.#calls.get(event.toolCallId);
    if (call?.state !== "ready") {
      this.#breach("I10", `${event.type} for ${event.toolCallId}, which is not ready`);
      return;
    }
    const isFinal = !(event.type === "tool-output-available" && event.preliminary === true);
    if (!isFinal) return;
    call.state = "final";
    for (const [id, callId] of this.#questions) {
      if (callId === event.toolCallId) this.#breach("I16", `${id} is open behind its call`);
    }
  }

  #takeData(event: Extract<HubEvent, { type: "data" }>): void {
    if (isQuestion(event)) return this.#takeQuestion(event);
    if (!isSteering(event)) return;
    const said = readSteering(event);
    if (said === null) return this.#breach("I15", "no text in it");
    const { steeringId, state } = said;
    if (this.#step !== null) this.#breach("I15", `${steeringId} inside a step`);
    for (const [id, call] of this.#calls) {
      if (call.state === "ready") this.#breach("I15", `${steeringId} before the output of ${id}`);
    }
    if (this.#said.has(steeringId)) this.#breach("I15", `${steeringId} twice`);
    this.#said.add(steeringId);
    this.#saidState = state;
  }

  /** A log that was made from parts has questions as they ended alone. */
  #takeQuestion(event: Extract<HubEvent, { type: "data" }>): void {
    const question = readQuestion(event);
    if (question === null) return this.#breach("I16", "no question in it");
    const { questionId, toolCallId, state } = question;
    const known = this.#questions.get(questionId);
    if (state === "pending") {
      if (known !== undefined) this.#breach("I16", `${questionId} twice`);
      if (this.#calls.get(toolCallId)?.state !== "ready") {
        this.#breach("I16", `${questionId} of ${toolCallId}, which does not run`);
      }
    } else if (known === null) this.#breach("I16", `${questionId} is closed again`);
    this.#questions.set(questionId, state === "pending" ? toolCallId : null);
  }

  #finishStep(event: Extract<HubEvent, { type: "step-finish" }>): void {
    if (event.step !== this.#step) this.#breach("I4", `step ${event.step} is not open`);
    this.#checkReason(event.finishReason);
    for (const [id, kind] of this.#open) this.#breach("I5", `${kind} ${id} has no end`);
    this.#open.clear();
    for (const [id, call] of this.#calls) {
      if (call.state === "streaming") this.#breach("I8", `${id} has no input`);
    }
    this.#step = null;
  }

  #resetStep(step: number): void {
    if (step !== this.#step) this.#breach("I4", `step ${step} is not open`);
    this.#open.clear();
    for (const [id, call] of this.#calls) {
      if (call.step !== step) continue;
      call.state = "void";
      for (const [approvalId, callId] of this.#approvals) {
        if (callId === id) this.#approvals.set(approvalId, null);
      }
    }
  }

  #finishRun(event: Extract<HubEvent, { type: "finish" }>): void {
    this.#finished = true;
    this.#checkReason(event.finishReason);
    const { finishReason } = event;
    const ending = finishReason === "error" ? "error" : finishReason === "aborted" ? "abort" : null;
    if (ending !== this.#ending) {
      this.#breach(
        "I3",
        `finish says ${finishReason} after ${this.#ending ?? "no error or abort"}`,
      );
    }
    if (this.#saidState !== null && ending === null) {
      this.#breach("I15", `the run finishes after ${this.#saidState} text`);
    }
    if (this.#step !== null) this.#breach("I7", `step ${this.#step} is open`);
    for (const id of this.#open.keys()) this.#breach("I7", `${id} is open`);
    for (const [id, call] of this.#calls) {
      if (call.state === "streaming") this.#breach("I7", `the input of ${id} is open`);
      if (call.state === "ready" && finishReason !== "waiting") {
        this.#breach("I13", `${id} has no final output`);
      }
    }
    for (const field of USAGE_FIELDS) {
      if (event.usage[field] !== this.#usage[field]) {
        this.#breach(
          "I14",
          `${field} is ${event.usage[field]}, the steps have ${this.#usage[field]}`,
        );
      }
    }
  }

  #checkReason(reason: string): void {
    if (!FINISH_REASONS.some((known) => known === reason)) this.#breach("I12", `reason ${reason}`);
  }
}

const USAGE_FIELDS = [
  "promptTokens",
  "completionTokens",
  "totalTokens",
  "cachedTokens",
  "reasoningTokens",
] as const satisfies readonly (keyof Usage)[];
