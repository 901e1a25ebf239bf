import type { FinishReason } from "../core/event.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import { approvalsOf, emptyFacts, type RunFacts } from "../core/run_facts.ts";
import type { StoredMessage } from "../store/messages.ts";
import type { StoredRun } from "../store/runs.ts";

/** What the rows of a run say besides its parts, for a replay without its log. Of the steps only their sum is known. */
export function storedFacts(run: StoredRun, message: StoredMessage): RunFacts {
  const { runId, sessionId, model } = run;
  const approvals = approvalsOf(message);
  const facts: RunFacts = { ...emptyFacts(), runId, sessionId, model, approvals };
  if (run.finishedAt === null) return facts;
  const { metadata = {} } = message;
  facts.usage = run.usage;
  facts.costMicros = run.costMicros;
  facts.estimated = run.estimated;
  facts.answeredBy = { model: text(metadata["model"]) ?? model, provider: run.provider ?? "" };
  facts.finishReason = (run.finishReason ?? "error") as FinishReason;
  if (facts.finishReason === "error") facts.error = errorOf(run.error);
  if (facts.finishReason === "aborted") {
    facts.abortReason = text(metadata["abortReason"]) ?? "The run was stopped";
  }
  return facts;
}

/** A failed run's error as its row has it. */
export function errorOf(error: Json): NonNullable<RunFacts["error"]> {
  const { code, message, retryable } = isJsonObject(error) ? error : {};
  return {
    errorText: text(message) ?? "The run failed",
    code: text(code) ?? "internal_error",
    retryable: retryable === true,
  };
}

function text(value: Json | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}
