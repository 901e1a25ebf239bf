import type { HubError } from "../core/error.ts";
import type { FinishReason, HubEvent } from "../core/event.ts";
import type { Fold } from "../core/fold.ts";
import type { ApprovalFacts } from "../core/run_facts.ts";
import { steeringEvent, type SteeringText } from "../core/steering.ts";
import { addUsage, NO_USAGE, type Usage } from "../core/usage.ts";

/** How a run ends. */
export type Ending =
  /** `isSpent`: a budget is used up, so that nothing makes the run go on. */
  | {
    kind: "finish";
    finishReason: Exclude<FinishReason, "error" | "aborted">;
    isSpent?: true;
  }
  | { kind: "abort"; reason: string }
  | { kind: "error"; errorText: string; code: string; retryable: boolean };

/** What the `finish` event says besides the ending. */
export interface ClosingFacts {
  /** Usage of the step that is still open, when there is one. */
  stepUsage?: Usage;
  /** Cost of the whole run; null when a part of it is unknown. */
  costMicros: number | null;
  /** A part of usage and cost is an estimate. */
  estimated?: boolean;
  /** Who answered last. */
  metadata: { model: string; provider: string };
  /** What was said to the run and will not be read. */
  undelivered?: readonly SteeringText[];
}

/** True for the events that end a run, the last ones of its log: before them it may still go on. */
export function isEnd({ type }: HubEvent): boolean {
  return type === "error" || type === "abort" || type === "finish";
}

/**
 * The events that end a run, whatever is open: the only writer of terminal sequences, also for a run whose replica
 * died. `fold` has seen all events of the log; the events given here are not applied to it.
 */
export function terminalEvents(fold: Fold, ending: Ending, facts: ClosingFacts): HubEvent[] {
  const open = fold.open();
  const events: HubEvent[] = [];
  const errorText = ending.kind === "abort" ? "aborted" : "interrupted";
  // Reasoning that is closed here gets no origin, so no provider ever sees half of a thought again.
  for (const id of open.reasoning) events.push({ type: "reasoning-end", id });
  for (const id of open.text) events.push({ type: "text-end", id });
  for (const { toolCallId, toolName, inputText } of open.streaming) {
    const input = inputText ?? "";
    events.push({ type: "tool-input-error", toolCallId, toolName, input, errorText });
  }
  const waits = ending.kind === "finish" && ending.finishReason === "waiting";
  const { approvals } = fold.facts();
  for (const { toolCallId } of waits ? [] : open.calls) {
    for (const { approvalId } of approvals.filter((one) => isUnanswered(one, toolCallId))) {
      const reason = "cancelled";
      events.push({ type: "tool-approval-response", approvalId, approved: false, reason });
    }
    events.push({ type: "tool-output-error", toolCallId, errorText });
  }
  const finishReason = ending.kind === "finish"
    ? ending.finishReason
    : ending.kind === "abort"
    ? "aborted"
    : "error";
  let usage = fold.facts().usage;
  if (open.step !== null) {
    const stepUsage = facts.stepUsage ?? { ...NO_USAGE };
    usage = addUsage(usage, stepUsage);
    events.push({ type: "step-finish", step: open.step, finishReason, usage: stepUsage });
  }
  for (const text of facts.undelivered ?? []) events.push(steeringEvent(text, "undelivered"));
  if (ending.kind === "abort") events.push({ type: "abort", reason: ending.reason });
  if (ending.kind === "error") {
    const { errorText, code, retryable } = ending;
    events.push({ type: "error", errorText, code, retryable });
  }
  const { costMicros, metadata } = facts;
  const marked = facts.estimated === true ? { estimated: true as const } : {};
  events.push({ type: "finish", finishReason, usage, costMicros, ...marked, metadata });
  return events;
}

function isUnanswered(approval: ApprovalFacts, toolCallId: string): boolean {
  return approval.toolCallId === toolCallId && approval.response === undefined;
}

/** The ending of a run that an error has ended. */
export function failed(error: HubError): Ending {
  const { message: errorText, clientCode: code, kind } = error;
  return { kind: "error", errorText, code, retryable: kind.retryable };
}
