import { isJsonObject, type Json, type JsonObject } from "./json.ts";
import type { ToolEffect, ToolRisk } from "./tool.ts";

/** Full name of the operation by which a model proposes a plan. */
export const PROPOSE_PLAN = "hub.propose_plan";

/** Whom a plan is asked of a run for: those with many calls or risky ones, or all. */
export type PreflightWhen = "complex" | "always";

/** When a run wants a plan that a person has agreed to. */
export interface PreflightRule {
  when: PreflightWhen;
  /** So many calls make a run complex. */
  calls: number;
  /** So does one call of this risk, or of a greater one. */
  risk: ToolRisk;
  /** How long a person is waited for; as for calls when left out. */
  timeoutMs?: number;
}

/** Where nothing else is said. */
export const DEFAULT_PREFLIGHT: PreflightRule = { when: "complex", calls: 3, risk: "high" };

/** Bounds of a plan. */
export const MAX_PLAN_STEPS = 50;
export const MAX_PURPOSE_LENGTH = 500;
export const MAX_PLANNED_NAME = 200;

/** A call that is planned. */
export interface PlanStep {
  tool: string;
  purpose: string;
}

/** A step as a person has decided it. */
export interface AgreedStep extends PlanStep {
  isSkipped: boolean;
}

/** A plan as it is shown to whoever decides on it. */
export interface ShownPlan {
  /** `risk` is null for a tool that the agent does not have; `asks`: before the call runs a person is asked once more. */
  steps: (PlanStep & { risk: ToolRisk | null; asks: boolean })[];
  /** Of what is left of the run, if each step is one call; `costMicros` is null when no price is known. */
  estimate: { modelCalls: number; tokens: number; costMicros: number | null };
  /** What the tools of the plan do to the world. */
  permissions: { tool: string; effect: ToolEffect }[];
  warnings: string[];
}

/** How a plan ended: `not-asked` is one so small that nobody was asked. */
export type PlanOutcome = "approved" | "changed" | "not-asked";

const RISKS: readonly ToolRisk[] = ["low", "medium", "high"];
const NAME = "preflight";

/** Whether one risk is as great as the other, or greater. */
export function isAsRisky(risk: ToolRisk, bound: ToolRisk): boolean {
  return RISKS.indexOf(risk) >= RISKS.indexOf(bound);
}

/** The stricter of what an agent and a caller want; null when neither wants anything. */
export function joinPreflight(
  rule: PreflightRule | undefined,
  wish: PreflightWhen | null,
): PreflightRule | null {
  if (wish === null) return rule ?? null;
  const joined = rule ?? DEFAULT_PREFLIGHT;
  return { ...joined, when: wish === "always" || rule?.when === "always" ? "always" : "complex" };
}

/** The event that shows a plan. */
export function preflightEvent(approvalId: string, plan: ShownPlan) {
  const data: JsonObject = { approvalId, ...toJson(plan) };
  return { type: "data" as const, name: NAME, id: approvalId, data };
}

/** The plan of such an event or part; null for any other. */
export function readPreflight(
  { name, data }: { name?: string; data?: Json },
): (ShownPlan & { approvalId: string }) | null {
  if (name !== NAME || !isJsonObject(data)) return null;
  const plan = readPlan(data);
  return plan === null ? null : { ...plan, approvalId: String(data["approvalId"]) };
}

/** A stored plan; null for what is none. */
export function readPlan(value: Json): ShownPlan | null {
  if (!isJsonObject(value) || !isJsonObject(value["estimate"])) return null;
  if (!Array.isArray(value["steps"]) || !Array.isArray(value["warnings"])) return null;
  return value as unknown as ShownPlan;
}

/** As JSON that Postgres and clients get. */
export function toJson(plan: ShownPlan): JsonObject {
  return structuredClone(plan) as unknown as JsonObject;
}

/** Steps that somebody has agreed on, from their JSON; null for what is none. */
export function readAgreed(value: Json | undefined): AgreedStep[] | null {
  if (!Array.isArray(value)) return null;
  return value.filter(isJsonObject).map(({ tool, purpose, isSkipped }) => ({
    tool: String(tool),
    purpose: String(purpose),
    isSkipped: isSkipped === true,
  }));
}

/** The planned steps of a call of `PROPOSE_PLAN`, from its checked input. */
export function readSteps(input: Json): PlanStep[] {
  const agreed = isJsonObject(input) ? readAgreed(input["steps"]) : null;
  return (agreed ?? []).map(({ tool, purpose }) => ({ tool, purpose }));
}
