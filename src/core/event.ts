import { judgesAnswer } from "./answer_format.ts";
import type { ApprovalResponse, ApprovalTerms } from "./approval.ts";
import { shapesContext } from "./context_events.ts";
import type { Json } from "./json.ts";
import { tellsLoss } from "./lost_events.ts";
import type { ReasoningOrigin } from "./model.ts";
import { isLostCalls } from "./model_use.ts";
import { isQuestion } from "./run_question.ts";
import { isSampling } from "./sampling_event.ts";
import { isSteering } from "./steering.ts";
import { isSubRun } from "./sub_run_event.ts";
import { isToolOffer } from "./tool_offer_event.ts";
import type { ToolOutput } from "./tool.ts";
import type { Usage } from "./usage.ts";

/** How a run, or one step, ended. `waiting` is a run whose calls the client executes; one that waits for a person has not ended. */
export type FinishReason =
  | "stop"
  | "length"
  | "content-filter"
  | "tool-calls"
  | "max-steps"
  | "max-time"
  | "max-tokens"
  | "max-cost"
  | "max-output"
  | "token-limit"
  | "error"
  | "aborted"
  | "waiting";

/** Every finish reason, for checks. */
export const FINISH_REASONS: readonly FinishReason[] = [
  "stop",
  "length",
  "content-filter",
  "tool-calls",
  "max-steps",
  "max-time",
  "max-tokens",
  "max-cost",
  "max-output",
  "token-limit",
  "error",
  "aborted",
  "waiting",
];

/**
 * One fact of a run. The ordered log of them is the truth from which messages, streams and replays are made.
 * Ids of text and reasoning parts (`id`) are unique per message; `step` counts from 0.
 */
export type HubEvent =
  /** A proxied answer is no run of the hub's: its stream names neither run nor session. */
  | { type: "start"; messageId: string; runId?: string; sessionId?: string; model: string }
  | { type: "step-start"; step: number }
  | { type: "text-start"; id: string }
  | { type: "text-delta"; id: string; delta: string }
  | { type: "text-end"; id: string }
  | { type: "reasoning-start"; id: string }
  | { type: "reasoning-delta"; id: string; delta: string }
  /** `origin` is what the provider needs back; only the hub's own log carries it. */
  | { type: "reasoning-end"; id: string; origin?: ReasoningOrigin }
  | { type: "tool-input-start"; toolCallId: string; toolName: string }
  | { type: "tool-input-delta"; toolCallId: string; inputTextDelta: string }
  | { type: "tool-input-available"; toolCallId: string; toolName: string; input: Json }
  | {
    type: "tool-input-error";
    toolCallId: string;
    toolName: string;
    input: string;
    errorText: string;
  }
  | {
    type: "tool-approval-request";
    approvalId: string;
    toolCallId: string;
    toolName: string;
    input: Json;
    expiresAt: string;
  } & ApprovalTerms
  /** The reason is of whoever decided; `expired` when nobody did in time, `cancelled` when the run ended before. */
  | { type: "tool-approval-response"; approvalId: string } & ApprovalResponse
  | { type: "tool-output-available"; toolCallId: string; output: ToolOutput; preliminary?: boolean }
  | { type: "tool-output-error"; toolCallId: string; errorText: string }
  | { type: "tool-output-denied"; toolCallId: string; errorText: string }
  | { type: "step-finish"; step: number; finishReason: FinishReason; usage: Usage }
  | { type: "step-reset"; step: number }
  | { type: "source-url"; sourceId: string; url: string; title?: string }
  | { type: "file"; mediaType: string; url: string; filename?: string }
  | { type: "data"; name: string; data: Json; id?: string; transient?: boolean }
  | { type: "error"; errorText: string; code: string; retryable: boolean }
  | { type: "abort"; reason: string }
  | {
    type: "finish";
    finishReason: FinishReason;
    usage: Usage;
    /** Integer millionths of a US dollar; null when a price is unknown. */
    costMicros: number | null;
    /** A part of both is an estimate: a provider did not say what it counted. */
    estimated?: true;
    metadata: { model: string; provider: string };
  };

/** The name of an event. */
export type HubEventType = HubEvent["type"];

/** A durable event with its place in the run's log. Transient events have no place. */
export interface SequencedEvent {
  seq: number;
  event: HubEvent;
}

const DELTA_TYPES: ReadonlySet<HubEventType> = new Set<HubEventType>([
  "text-start",
  "text-delta",
  "text-end",
  "reasoning-start",
  "reasoning-delta",
  "reasoning-end",
  "tool-input-start",
  "tool-input-delta",
  "source-url",
  "file",
  "data",
]);

/** True when the event must be committed before anybody sees it; deltas are sent at once and committed in batches. */
export function isTransition(event: HubEvent): boolean {
  if (event.type === "data") {
    return isSteering(event) || isQuestion(event) || shapesContext(event) || isToolOffer(event) ||
      judgesAnswer(event) || isSubRun(event) || isSampling(event) || isLostCalls(event) ||
      tellsLoss(event);
  }
  return !DELTA_TYPES.has(event.type);
}

/** True for events that are shown to live subscribers only. */
export function isTransient(event: HubEvent): boolean {
  return event.type === "data" && event.transient === true;
}
