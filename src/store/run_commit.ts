import type { FinishReason, SequencedEvent } from "../core/event.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { SteeringFate } from "../core/steering.ts";
import type { ToolEffect, ToolPreview } from "../core/tool.ts";
import type { UIPart } from "../core/ui_message.ts";
import type { Usage } from "../core/usage.ts";
import type { BegunCall } from "./usage_rows.ts";
import type { EncodedUsageRow } from "./usage_rows.ts";

/** A journal row to insert or replace. Ids are public ids. */
export interface ToolCallRow {
  toolCallId: string;
  step: number;
  index: number;
  toolName: string;
  input: Json | null;
  inputText: string;
  argsHash: string;
  effect: ToolEffect;
  defHash?: string;
  outside?: string;
  idempotencyKey: string;
  state: string;
  output?: Json;
  errorText?: string;
  durationMs?: number;
  providerCallId?: string;
}

/** A step row to insert or replace. */
export interface StepRow {
  step: number;
  state: "started" | "done";
  attempt: number;
  usage?: Usage;
  costMicros?: number | null;
  finishReason?: FinishReason;
  provider?: string;
  model?: string;
}

/** What became of a text that was said to the run. Written once, while nobody has decided it. */
export interface SteeringRow {
  steeringId: string;
  state: SteeringFate;
}

/** A question to a person whether a call may run. It expires so many milliseconds after it was written. */
export interface ApprovalRow {
  approvalId: string;
  toolCallId: string;
  toolName: string;
  argsHash: string;
  defHash: string;
  risk: string;
  tier: string;
  preview: ToolPreview | null;
  shownState: string | null;
  tainted: string[];
  timeoutMs: number;
  plan?: Json;
}

/** A question of a tool to people, or what became of one. It expires so many milliseconds after it was written. */
export interface QuestionRow {
  questionId: string;
  toolCallId: string;
  source: string;
  kind: string;
  message: string;
  asked: JsonObject;
  state: string;
  timeoutMs: number;
}

/** How a run ended; written with its `finish` event. */
export interface RunFinish {
  status: "completed" | "failed" | "cancelled" | "waiting";
  finishReason: FinishReason;
  usage: Usage;
  /** Millionths of a US dollar; null when a price is unknown. */
  costMicros: number | null;
  provider: string;
  model: string;
  error?: { code: string; message: string; retryable?: boolean };
  /** Why it was stopped, when it was. */
  abortReason?: string;
}

/** What one owner writes about one run at once. Events are consecutive; void parts are null. */
export interface RunCommit {
  tenantId: string;
  sessionId: string;
  runId: string;
  messageId: string;
  epoch: number;
  /**
   * Number of the last event that Postgres has confirmed to this writer, or had when it claimed the run: the log must still
   * end there. It does not when Postgres has lost what it had confirmed, as after a failover to a standby that was behind.
   */
  follows: number;
  events: SequencedEvent[];
  /** Numbers up to this one may be shown before they are committed. */
  reserveTo: number;
  parts: { index: number; part: UIPart | null }[];
  steps: StepRow[];
  toolCalls: ToolCallRow[];
  steering?: SteeringRow[];
  approvals?: ApprovalRow[];
  questions?: QuestionRow[];
  /**
   * Nobody owns the run behind this commit: it waits, or may be claimed at once when more was decided than these answers
   * or when it was asked to stop.
   */
  pause?: { decisions: number; costMicros: number | null };
  finish?: RunFinish;
  /** Usage rows of its model calls that may not be written yet: what a step has used is there when its end is. */
  usage?: readonly EncodedUsageRow[];
  /** Model calls that were sent and whose usage rows are still to come. */
  calls?: readonly BegunCall[];
  /** How many texts the writer knows of: the run does not finish while there are more. */
  steered?: number;
}

/** What a run that is still owned has been asked. */
export interface OwnedRun {
  stopRequested: boolean;
  /** How many texts were said to it. */
  steered: number;
}
