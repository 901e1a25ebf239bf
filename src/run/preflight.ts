import {
  isAsRisky,
  joinPreflight,
  type PreflightRule,
  type PreflightWhen,
  PROPOSE_PLAN,
  readAgreed,
  readSteps,
} from "../core/preflight.ts";
import { isJsonObject, type Json } from "../core/json.ts";
import type { Tool, ToolRisk } from "../core/tool.ts";
import type { ToolPart, UIMessage, UIPart } from "../core/ui_message.ts";
import type { Permission, PermissionRequest } from "../inference/agent_run.ts";
import { createProposePlan } from "../operations/builtin/propose_plan.ts";
import { toTool } from "../operations/to_tool.ts";
import { readPlanAnswer } from "../store/approvals.ts";
import type { Database } from "../store/database.ts";
import type { RunnableAgent } from "./runnable_agent.ts";

/** The agent with the operation that proposes plans, where its settings or the caller want them. */
export function withPreflight(
  agent: RunnableAgent,
  { wish, db }: { wish: PreflightWhen | null; db: Database },
): RunnableAgent {
  const { settings, offer } = agent;
  const rule = joinPreflight(settings.preflight, wish);
  // Tools that are still to come are no reason to go on without a plan: it says which are not there.
  if (rule === null || agent.hasNoTools === true || settings.toolChoice === "none") return agent;
  const propose = toTool(createProposePlan({ readAnswer: (call) => readPlanAnswer(db, call) }));
  const others = agent.tools.filter(({ name }) => name !== PROPOSE_PLAN);
  const toolChoice = rule.when === "always" ? { toolChoice: { name: PROPOSE_PLAN } } : {};
  return {
    ...agent,
    tools: [...others, propose].sort((a, b) => a.name < b.name ? -1 : 1),
    settings: { ...settings, preflight: rule, ...toolChoice },
    ...(offer === undefined
      ? {}
      : { offer: { ...offer, pinned: [...new Set([...offer.pinned, PROPOSE_PLAN])].sort() } }),
  };
}

/** What a plan that was agreed on says of tools. */
interface AgreedPlan {
  planned: ReadonlySet<string>;
  skipped: ReadonlySet<string>;
}

/**
 * Asks for a plan before it lets calls pass, and lets those pass that the plan has which a person has agreed to; `permit`
 * decides on them as on any.
 */
export function permitPlanned(
  permit: (request: PermissionRequest) => Promise<Permission>,
  { rule, tools, fullName }: {
    rule: PreflightRule | undefined;
    tools: readonly Tool[];
    fullName: (wireName: string) => string;
  },
): (request: PermissionRequest) => Promise<Permission> {
  if (rule === undefined) return permit;
  const riskOf = (name: string) => tools.find((tool) => tool.name === name)?.risk ?? null;
  return async (request) => {
    const { tool, input, message } = request;
    if (tool.name === PROPOSE_PLAN) {
      const steps = readSteps(input).map(({ tool }) => riskOf(fullName(tool)));
      const isComplex = steps.length >= rule.calls ||
        steps.some((risk) => risk === null || isAsRisky(risk, rule.risk));
      return { allowed: rule.when === "always" || isComplex ? "ask" : true };
    }
    const plan = agreedPlan(message, fullName);
    const reason = plan === null
      ? whyPlan(request, { rule, riskOf })
      : whyNotPlanned(request, plan);
    return reason === null ? await permit(request) : { allowed: false, reason };
  };
}

/** Why a call wants a plan first; null when it does not. One that is risky holds up the others of its step. */
function whyPlan(
  { tool, step, message }: PermissionRequest,
  { rule, riskOf }: { rule: PreflightRule; riskOf(name: string): ToolRisk | null },
): string | null {
  const first = `Not executed: propose a plan first, with ${PROPOSE_PLAN}`;
  if (rule.when === "always") return first;
  const isRisky = (risk: ToolRisk | null) => risk !== null && isAsRisky(risk, rule.risk);
  if (isRisky(tool.risk)) return `${first}: ${tool.name} has a ${tool.risk} risk`;
  const all = message.parts.filter(isCall);
  if (all.length >= rule.calls) return `${first}: with these this run makes ${all.length} calls`;
  const risky = all.find((part) => part.step === step && isRisky(riskOf(part.toolName)));
  if (risky === undefined) return null;
  return `${first}: ${risky.toolName} beside it has a ${riskOf(risky.toolName)} risk`;
}

/** Calls that ran, and those of the step that is judged. */
function isCall(part: UIPart): part is ToolPart {
  if (part.type !== "tool" || part.toolName === PROPOSE_PLAN) return false;
  return part.state !== "error" || part.denied !== true && part.input !== undefined;
}

function whyNotPlanned({ tool }: PermissionRequest, plan: AgreedPlan): string | null {
  if (plan.planned.has(tool.name)) return null;
  if (plan.skipped.has(tool.name)) {
    return "Not executed: a person has skipped this step of the plan";
  }
  if (tool.effect === "pure" && tool.risk === "low") return null;
  return `Not executed: ${tool.name} is not in the plan that was agreed on; propose another one`;
}

/** The last plan of a run that a person has agreed to; null when there is none. */
function agreedPlan(
  { parts }: Pick<UIMessage, "parts">,
  fullName: (wireName: string) => string,
): AgreedPlan | null {
  const last = parts.findLast((part) =>
    part.type === "tool" && part.toolName === PROPOSE_PLAN && part.state === "result" &&
    outcomeOf(part.output) !== "not-asked"
  );
  if (last?.type !== "tool" || !isJsonObject(last.output)) return null;
  const steps = readAgreed(last.output["steps"]) ?? [];
  const names = (isSkipped: boolean) =>
    new Set(steps.filter((step) => step.isSkipped === isSkipped).map(({ tool }) => fullName(tool)));
  return { planned: names(false), skipped: names(true) };
}

function outcomeOf(output: Json | undefined): Json | undefined {
  return isJsonObject(output) ? output["outcome"] : undefined;
}
