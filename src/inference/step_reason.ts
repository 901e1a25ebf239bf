import type { FinishReason } from "../core/event.ts";
import type { ModelFinishReason } from "../core/model.ts";

/** How a model's answer can end. */
export type StepReason = Exclude<FinishReason, "error" | "aborted" | "waiting" | ConcludeReason>;

/** Why a run has to end with the answer that its model gives next. */
export type ConcludeReason = BudgetReason | "token-limit";

/** Which bound of its own has ended a run. */
export type BudgetReason = "max-steps" | "max-time" | "max-tokens" | "max-cost" | "max-output";

/** Some providers say `stop` beside calls, or `tool-calls` without any: the calls decide. */
export function stepReason(reason: ModelFinishReason, callCount: number): StepReason {
  if (reason === "length" || reason === "content-filter") return reason;
  return callCount > 0 ? "tool-calls" : "stop";
}
