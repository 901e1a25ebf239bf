import { Type } from "@sinclair/typebox";
import { Budget } from "../config/agent_schema.ts";
import type { PreflightWhen } from "../core/preflight.ts";
import type { RunBudget } from "../core/run_budget.ts";
import { createCheck } from "../config/check_value.ts";

/** What a caller says about plans: true for always. */
export const PreflightWish = Type.Union([Type.Boolean(), Type.Literal("complex")], {
  description:
    "Whether a person has to agree to a plan first: true, or complex for a run of many calls or risky ones",
});

/** When a caller wants to be shown a plan; undefined when it says nothing. */
export function preflightOf(
  wish: typeof PreflightWish.static | undefined,
): PreflightWhen | undefined {
  return wish === true ? "always" : wish === "complex" ? wish : undefined;
}

const Limits = Type.Object({
  budget: Type.Optional(Budget),
  preflight: Type.Optional(PreflightWish),
});
const check = createCheck(Limits, "body");

/** What a body that takes any fields says of its run's limits. Throws `invalid_request`: what bounds is never ignored. */
export function limitsOf(
  { budget, preflight }: { budget?: unknown; preflight?: unknown },
): { budget?: RunBudget; preflight?: PreflightWhen } {
  const given = check({
    ...((budget ?? null) === null ? {} : { budget }),
    ...((preflight ?? null) === null ? {} : { preflight }),
  }) as typeof Limits.static;
  const when = preflightOf(given.preflight);
  return {
    ...(given.budget === undefined ? {} : { budget: given.budget }),
    ...(when === undefined ? {} : { preflight: when }),
  };
}
