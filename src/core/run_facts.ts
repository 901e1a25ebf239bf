import { type ApprovalResponse, type ApprovalTerms, responseOf } from "./approval.ts";
import type { FinishReason } from "./event.ts";
import type { Json, JsonObject } from "./json.ts";
import type { UIMessage } from "./ui_message.ts";
import { NO_USAGE, type Usage } from "./usage.ts";

/** One step of a run. `finishReason` and `usage` are there once it is done. */
export interface StepFacts {
  step: number;
  state: "started" | "done";
  finishReason?: FinishReason;
  usage?: Usage;
}

/** A question to a person about one call, and the answer when there is one. */
export interface ApprovalFacts extends ApprovalTerms {
  approvalId: string;
  toolCallId: string;
  toolName: string;
  input: Json;
  /** RFC 3339. */
  expiresAt: string;
  response?: ApprovalResponse;
}

/** The questions that a message's calls have led to, for a replay without the log. */
export function approvalsOf({ parts }: Pick<UIMessage, "parts">): ApprovalFacts[] {
  return parts.flatMap((part) => {
    if (part.type !== "tool" || part.approval === undefined) return [];
    const { toolCallId, toolName, input = null } = part;
    const { approved, reason: _, remember: __, ...asked } = part.approval;
    const response = approved === undefined
      ? {}
      : { response: responseOf({ ...part.approval, approved }) };
    return [{ ...asked, toolCallId, toolName, input, ...response }];
  });
}

/** What the log of a run says besides its message. Together with the message it is enough to make the log again. */
export interface RunFacts {
  runId: string;
  sessionId: string;
  /** Public model name, as asked for. */
  model: string;
  /** Who answered last; null while the run has not finished. */
  answeredBy: { model: string; provider: string } | null;
  steps: StepFacts[];
  /** Sum of the steps that are done. */
  usage: Usage;
  /** Null while the run has not finished. */
  finishReason: FinishReason | null;
  costMicros: number | null;
  /** A part of usage and cost is an estimate. */
  estimated: boolean;
  error: { errorText: string; code: string; retryable: boolean } | null;
  /** Why the run was stopped, when it was. */
  abortReason: string | null;
  approvals: ApprovalFacts[];
}

/** Facts of a run of which nothing is known yet. */
export function emptyFacts(): RunFacts {
  return {
    runId: "",
    sessionId: "",
    model: "",
    answeredBy: null,
    steps: [],
    usage: { ...NO_USAGE },
    finishReason: null,
    costMicros: null,
    estimated: false,
    error: null,
    abortReason: null,
    approvals: [],
  };
}

/**
 * Metadata of the assistant message: `model`, the one asked for until the run has finished; then the one that answered,
 * `provider`, `finishReason`, `usage`, `costMicros`, `estimated` where a part of these is an estimate, with `error` or `abortReason` when the run ended so.
 */
export function factsToMetadata(facts: RunFacts): JsonObject {
  if (facts.finishReason === null) return { model: facts.model };
  return {
    model: facts.answeredBy?.model ?? facts.model,
    provider: facts.answeredBy?.provider ?? "",
    finishReason: facts.finishReason,
    usage: { ...facts.usage },
    costMicros: facts.costMicros,
    ...(facts.estimated ? { estimated: true } : {}),
    ...(facts.error === null ? {} : { error: { ...facts.error } }),
    ...(facts.abortReason === null ? {} : { abortReason: facts.abortReason }),
  };
}
