import type { ApprovalTier, Remember } from "../../core/approval.ts";
import { MAX_REASON_LENGTH } from "../../core/limits.ts";
import type { AgreedStep, ShownPlan } from "../../core/preflight.ts";
import { makeSafe } from "../../telemetry/make_safe.ts";
import { formatCost } from "../show_event.ts";

/** What a person says to the question whether a call may run. */
export type ApprovalAnswer = { approved: boolean; reason?: string; remember?: Remember };

/** What a person says to a plan: an answer, or steps that are changed or skipped before there is one. */
export type PlanWord =
  | { kind: "answer"; answer: ApprovalAnswer }
  | { kind: "changed"; steps: AgreedStep[] };

/** The answer where the input has ended. */
export const NOBODY: ApprovalAnswer = { approved: false, reason: "nobody is here to answer" };

/** How a question of this kind is answered. */
export function approvalPrompt(tier: ApprovalTier): string {
  return tier === "always"
    ? "allow it? yes / no [why] > "
    : "allow it? once / session / always / no [why] > ";
}

export const PLAN_PROMPT = "go on? yes / no [why] / skip N / edit N WORDS > ";

/** How a question of a tool is answered; a form is filled in behind it. */
export const QUESTION_PROMPT = "accept / decline / cancel > ";

/** What a person does about the question of a tool; null for anything else. */
export function readAction(line: string): "accept" | "decline" | "cancel" | null {
  const said = line.trim().toLowerCase();
  if (["accept", "y", "yes"].includes(said)) return "accept";
  if (["decline", "n", "no"].includes(said)) return "decline";
  return said === "cancel" ? said : null;
}

/** `yes` or how far it reaches, `no`, or `no` and why; null for anything else. */
export function readAnswer(line: string, tier: ApprovalTier): ApprovalAnswer | null {
  const [word = "", ...more] = line.trim().split(/\s+/);
  const said = word.toLowerCase();
  const isAlone = more.length === 0;
  if (isAlone && ["y", "yes", "ok", "/approve"].includes(said)) return { approved: true };
  if (isAlone && tier !== "always" && isReach(said)) return { approved: true, remember: said };
  if (isAlone && said === "once") return { approved: true };
  if (said !== "n" && said !== "no") return null;
  const reason = more.join(" ").slice(0, MAX_REASON_LENGTH);
  return { approved: false, ...(reason === "" ? {} : { reason }) };
}

function isReach(word: string): word is Remember {
  return word === "once" || word === "session" || word === "always";
}

/** As `readAnswer`, and `skip 2`, which a second time takes it back, and `edit 2 what to do`. */
export function readPlanWord(line: string, steps: readonly AgreedStep[]): PlanWord | null {
  const [, verb, number, words = ""] = /^(skip|edit)\s+(\d{1,3})(?:\s+(.+))?$/i.exec(line.trim()) ??
    [];
  if (verb === undefined) {
    const answer = readAnswer(line, "always");
    return answer === null ? null : { kind: "answer", answer };
  }
  const at = Number(number) - 1;
  const step = steps[at];
  const isEdit = verb.toLowerCase() === "edit";
  if (step === undefined || isEdit !== (words !== "")) return null;
  const changed = isEdit ? { ...step, purpose: words } : { ...step, isSkipped: !step.isSkipped };
  return { kind: "changed", steps: steps.with(at, changed) };
}

/** A plan for people, its steps as they stand now. No words of a model begin a line. */
export function describePlan(plan: ShownPlan, steps: readonly AgreedStep[]): string {
  const { estimate: { modelCalls, tokens, costMicros }, permissions, warnings } = plan;
  const cost = costMicros === null ? "" : `, ${formatCost(costMicros)}`;
  const changing = permissions.filter(({ effect }) => effect !== "pure").map(({ tool }) => tool);
  return [
    "The plan:",
    ...steps.map(({ tool, purpose, isSkipped }, at) => {
      const known = plan.steps[at];
      const risk = known?.risk ?? "unknown";
      const asks = known?.asks === true ? ", asks again" : "";
      const skipped = isSkipped ? "SKIPPED " : "";
      return `  ${at + 1}. ${skipped}${makeSafe(`${tool} (risk ${risk}${asks}): ${purpose}`)}`;
    }),
    `about ${modelCalls} model calls, ${tokens} tokens${cost}`,
    changing.length === 0 ? "it changes nothing" : `it may change things: ${changing.join(", ")}`,
    ...warnings.map((warning) => `! ${makeSafe(warning)}`),
  ].join("\n");
}
