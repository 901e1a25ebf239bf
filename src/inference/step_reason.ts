import type { FinishReason } from "../core/event.ts";
import type { ModelFinishReason } from "../core/model.ts";

/** How a model's answer can end. */
export type StepReason = Exclude<FinishReason, "error" | "aborted" | "waiting" | ConcludeReason>;

/** Why a run has to end with the answer that its model gives next. */
export type ConcludeReason = "max-steps" | "token-limit";

/** Some providers say `stop` beside calls, or `tool-calls` without any: the calls decide. */
export function stepReason(reason: ModelFinishReason, callCount: number): StepReason {
  if (reason === "length" || reason === "content-filter") return reason;
  return callCount > 0 ? "tool-calls" : "stop";
}
