import {
  type AgreedStep,
  MAX_PLAN_STEPS,
  MAX_PLANNED_NAME,
  MAX_PURPOSE_LENGTH,
  type PlanOutcome,
  PROPOSE_PLAN,
} from "../../core/preflight.ts";
import { defineOperation, type Operation, Type } from "../operation.ts";

/** What a person has answered to the plan of a call. */
export interface PlanAnswer {
  /** Null when the plan was left as it is. */
  steps: AgreedStep[] | null;
  reason: string | null;
}

/** Reads the answer to the plan of a call; null when nobody was asked. */
export type ReadPlanAnswer = (
  call: { tenantId: string; runId: string; toolCallId: string },
) => Promise<PlanAnswer | null>;

const [namespace = "", name = ""] = PROPOSE_PLAN.split(".");

/** `hub.propose_plan`: what a model means to do, before it does it. Its result is what a person has made of it. */
export function createProposePlan({ readAnswer }: { readAnswer: ReadPlanAnswer }): Operation {
  return defineOperation({
    namespace,
    name,
    description:
      "Proposes what you are about to do, before you do it: one step for each tool call that you intend, in order, " +
      "with the tool's name and what the call is for. A person may approve the plan, change it, skip steps or reject it. " +
      "Do what the answer says. Tools of skipped steps, and tools with effects that the plan does not name, are refused: " +
      "for anything else propose another plan.",
    input: Type.Object({
      steps: Type.Array(
        Type.Object({
          tool: Type.String({
            minLength: 1,
            maxLength: MAX_PLANNED_NAME,
            description: "Name of the tool",
          }),
          purpose: Type.String({
            minLength: 1,
            maxLength: MAX_PURPOSE_LENGTH,
            description: "What the call is for, and what it works on",
          }),
        }),
        { minItems: 1, maxItems: MAX_PLAN_STEPS },
      ),
    }),
    effect: "pure",
    inRunsOnly: true,
    async run({ steps }, { principal: { tenantId }, runId, toolCallId }) {
      const answer = await readAnswer({ tenantId, runId, toolCallId });
      const agreed = answer?.steps ?? steps.map((step) => ({ ...step, isSkipped: false }));
      const outcome: PlanOutcome = answer === null
        ? "not-asked"
        : answer.steps === null
        ? "approved"
        : "changed";
      return {
        outcome,
        ...(answer?.reason ? { said: answer.reason } : {}),
        steps: agreed.map(({ isSkipped, ...step }) => ({
          ...step,
          decision: isSkipped ? "skip: do not do it" : "do",
          isSkipped,
        })),
      };
    },
  });
}
