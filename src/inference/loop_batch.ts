import type { ApprovalTier } from "../core/approval.ts";
import type { FinishReason, HubEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { QuestionState, RunQuestion } from "../core/run_question.ts";
import type { ToolEffect, ToolOutput, ToolPreview, ToolRisk } from "../core/tool.ts";
import type { Usage } from "../core/usage.ts";

/** State of a call in the journal. */
export type ToolCallStatus =
  | "awaiting_approval"
  | "denied"
  | "ready"
  | "started"
  | "succeeded"
  | "failed"
  | "unknown"
  | "cancelled";

/** A row of the tool call journal; a later record of the same call replaces the earlier one. */
export interface ToolCallRecord {
  toolCallId: string;
  step: number;
  /** Place of the call in its step, from 0. */
  index: number;
  toolName: string;
  /** Validated input; null when the arguments were not usable. */
  input: Json | null;
  /** Arguments as the model wrote them. */
  inputText: string;
  /** SHA-256, hex, of the canonical JSON of the input (of the raw text when there is no input). */
  argsHash: string;
  effect: ToolEffect;
  /** `definitionHash` of the tool that it was judged by; left out where there was none. */
  defHash?: string;
  /** Where its result comes from, when it may hold the words of others. */
  outside?: string;
  /** The same for every execution of this call. */
  idempotencyKey: string;
  state: ToolCallStatus;
  output?: ToolOutput;
  errorText?: string;
  durationMs?: number;
  /** The id that the provider gave; not unique. */
  providerCallId?: string;
}

/** A row of the steps table; a later record of the same step replaces the earlier one. */
export interface StepRecord {
  step: number;
  state: "started" | "done";
  /** Tries of the step's model call so far, from 1. */
  attempt: number;
  usage?: Usage;
  /** Millionths of a US dollar; null when a price is unknown. */
  costMicros?: number | null;
  finishReason?: FinishReason;
  provider?: string;
  model?: string;
}

/** A question to a person whether a call may run. It is pending until somebody answers, or its time is over. */
export interface ApprovalRecord {
  approvalId: string;
  toolCallId: string;
  toolName: string;
  argsHash: string;
  /** SHA-256, hex, of what the tool says of itself. */
  defHash: string;
  risk: ToolRisk;
  tier: ApprovalTier;
  /** What is shown beside the arguments, and the state that it was made from. */
  preview: ToolPreview | null;
  shownState: string | null;
  /** Where the run has read what others wrote, when that is why a person is asked. */
  tainted: string[];
  /** How long an answer is waited for. */
  timeoutMs: number;
  /** What is shown of the plan that the call proposes; left out for any other call. */
  plan?: Json;
}

/** A row of the questions that tools ask; a later record of the same question says what became of it. */
export interface QuestionRecord extends RunQuestion {
  state: QuestionState;
  /** How long an answer is waited for. */
  timeoutMs: number;
}

/**
 * What the loop hands out at once. Everything of a batch is durable before the next one is asked for, so a call
 * whose record says `started` runs only after that is written. Only the end of a run may be held back: its last events
 * (see `isEnd`) are not written when `Steering.isBehind` says so behind them.
 */
export interface LoopBatch {
  events: HubEvent[];
  calls?: ToolCallRecord[];
  steps?: StepRecord[];
  approvals?: ApprovalRecord[];
  questions?: QuestionRecord[];
  /** The last batch of a run that waits for answers: nobody owns it until there is one. */
  pause?: Pause;
}

/** How a run begins to wait. */
export interface Pause {
  /** Answers that are in its log. When there are more, or it was stopped, it goes on at once. */
  decisions: number;
  /** What it has cost so far; null when that is unknown. */
  costMicros: number | null;
}
