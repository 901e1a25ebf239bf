import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { MAX_REASON_LENGTH } from "../../core/limits.ts";
import { accessOf } from "../../core/ownership.ts";
import {
  type AgreedStep,
  MAX_PLAN_STEPS,
  MAX_PLANNED_NAME,
  MAX_PURPOSE_LENGTH,
  readAgreed,
  readPlan,
  type ShownPlan,
  toJson,
} from "../../core/preflight.ts";
import { visibleJson } from "../../core/visible_text.ts";
import { shownHash } from "../../inference/approvals.ts";
import { answerQuestion } from "../../run/approvals.ts";
import { findRun } from "../../run/owned.ts";
import { readLastPlan, type StoredApproval } from "../../store/approvals.ts";
import type { Call } from "../call.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import type { ApprovalsOptions } from "./approvals.ts";
import { RunParams, Time } from "./schemas.ts";

const Step = Type.Object({
  tool: Type.String({ minLength: 1, maxLength: MAX_PLANNED_NAME }),
  purpose: Type.String({ minLength: 1, maxLength: MAX_PURPOSE_LENGTH }),
}, { additionalProperties: false });
const OrNull = { text: Type.Union([Type.String(), Type.Null()]) };

const PlanBody = Type.Object({
  approvalId: Type.String(),
  runId: Type.String(),
  state: Type.String({ description: "pending, approved, denied, expired or cancelled" }),
  steps: Type.Array(Type.Object({
    ...Step.properties,
    risk: OrNull.text,
    asks: Type.Boolean({ description: "Before the call runs a person is asked once more" }),
  })),
  estimate: Type.Object({
    modelCalls: Type.Integer(),
    tokens: Type.Integer(),
    costMicros: Type.Union([Type.Integer(), Type.Null()]),
  }),
  permissions: Type.Array(Type.Object({ tool: Type.String(), effect: Type.String() })),
  warnings: Type.Array(Type.String()),
  agreed: Type.Union([
    Type.Array(Type.Object({ ...Step.properties, isSkipped: Type.Boolean() })),
    Type.Null(),
  ], { description: "The steps as somebody has changed them" }),
  hash: Type.String({ description: "Of the plan as it is shown" }),
  reason: OrNull.text,
  expiresAt: Time,
  decidedAt: Type.Union([Time, Type.Null()]),
});

const Answer = Type.Object({
  approved: Type.Boolean(),
  skip: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: MAX_PLAN_STEPS }), {
    maxItems: MAX_PLAN_STEPS,
    description: "Steps that are not to be done, from 1",
  })),
  steps: Type.Optional(Type.Array(Step, {
    minItems: 1,
    maxItems: MAX_PLAN_STEPS,
    description: "In place of the steps of the plan; skip counts in them then",
  })),
  reason: Type.Optional(
    Type.String({ maxLength: MAX_REASON_LENGTH, description: "The model reads it" }),
  ),
  hash: Type.Optional(
    Type.String({ maxLength: 100, description: "As it was shown: the answer holds for no other" }),
  ),
}, { additionalProperties: false });

/** See and answer the plan that a run has proposed. */
export function preflightRoutes({ start: { db, ids }, onClaimable }: ApprovalsOptions): Route[] {
  const find = async (call: Pick<Call<{ id: string }>, "params" | "principal">) => {
    const key = await findRun(db, accessOf(call.principal), call.params.id);
    const asked = await readLastPlan(db, key);
    const plan = readPlan(asked?.plan ?? null);
    if (asked !== null && plan !== null) return { key, asked, plan };
    throw new HubError("not_found", `The run ${key.runId} has proposed no plan`);
  };
  return [
    defineRoute({
      method: "GET",
      path: "/v1/runs/:id/preflight",
      auth: "user",
      takesRoom: false,
      tag: "runs",
      summary: "The last plan that a run has proposed to a person",
      params: RunParams,
      responses: { 200: { description: "The plan", schema: PlanBody } },
      async handle(call) {
        const { asked, plan } = await find(call);
        return jsonReply(toBody(asked, plan));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/runs/:id/preflight",
      auth: "user",
      tag: "runs",
      takesRoom: false,
      summary: "Agree to it, change it, skip steps of it, or reject it",
      description:
        "On any replica. One answer counts; the run then goes on wherever it is claimed.",
      params: RunParams,
      body: Answer,
      responses: {
        200: { description: "This answer counts", schema: PlanBody },
        409: { description: "It was answered, has expired, ended with its run, or is another" },
      },
      async handle(call) {
        const { asked, plan, key } = await find(call);
        const { approved, reason = null, hash = null } = call.body;
        const steps = agreedSteps(plan, call.body);
        const { approvalId } = asked;
        const by = accessOf(call.principal);
        const answer = {
          ...{ ...key, approvalId, approved, reason, hash, by },
          ...{ remember: null, rememberSeconds: null, ids },
        };
        const answered = await answerQuestion(db, {
          ...answer,
          ...steps === null ? {} : { steps },
        });
        onClaimable();
        return jsonReply(toBody(answered, plan));
      },
    }),
  ];
}

/** Null where the plan is left as it is. Throws `invalid_request`. */
function agreedSteps(
  plan: ShownPlan,
  { approved, steps, skip = [] }: typeof Answer.static,
): AgreedStep[] | null {
  if (steps === undefined && skip.length === 0) return null;
  const refuse = (message: string, param: string) =>
    new HubError("invalid_request", message, { param });
  if (!approved) {
    throw refuse("A plan is rejected as a whole, or approved with changes", "approved");
  }
  const given = steps ?? plan.steps;
  const wrong = skip.find((step) => step > given.length);
  if (wrong !== undefined) {
    throw refuse(`There is no step ${wrong} to skip: the plan has ${given.length}`, "skip");
  }
  return given.map(({ tool, purpose }, at) => ({
    ...{ tool, purpose, isSkipped: skip.includes(at + 1) },
  }));
}

function toBody(asked: StoredApproval, plan: ShownPlan): typeof PlanBody.static {
  const { approvalId, runId, state, reason, expiresAt, decidedAt, answer } = asked;
  const agreed = readAgreed(answer);
  const hash = shownHash(asked);
  const shown = visibleJson(toJson(plan)) as unknown as ShownPlan;
  return { approvalId, runId, state, ...shown, agreed, hash, reason, expiresAt, decidedAt };
}
