import type { RunBudget } from "../core/run_budget.ts";
import type { Json } from "../core/json.ts";
import { type PlanStep, PROPOSE_PLAN, readSteps, type ShownPlan } from "../core/preflight.ts";
import { visibleText } from "../core/visible_text.ts";
import type { RunFacts } from "../core/run_facts.ts";
import type { Tool, ToolRisk } from "../core/tool.ts";
import type { AgentRun } from "./agent_run.ts";

/** What the run has used so far; the cost is null when it is unknown. */
export interface SpentFacts extends Pick<RunFacts, "steps" | "usage"> {
  costMicros: number | null;
}

/** Tokens that a result and what the model writes about it are taken to have, where nothing better is known. */
const RESULT_TOKENS = 1000;
const ANSWER_TOKENS = 200;
const RISKS: readonly ToolRisk[] = ["low", "medium", "high"];

/** What a person is shown of a plan: what the hub knows of its tools, and what it may cost. Null for any other call. */
export async function showPlan(
  run: AgentRun,
  call: { tool: Tool; input: Json },
  spent: SpentFacts,
): Promise<ShownPlan | null> {
  if (call.tool.name !== PROPOSE_PLAN) return null;
  const find = (name: string) => {
    const full = run.wireNames.fromWire(name) ?? name;
    return run.tools.find((tool) => tool.name === full);
  };
  const planned = readSteps(call.input).map((step) => ({ step, tool: find(step.tool) }));
  const estimate = estimateRest(run, spent, planned.length);
  const tools = [...new Set(planned.flatMap(({ tool }) => tool ?? []))];
  const asks = await foresee(run, planned.map(({ tool }) => tool));
  return {
    steps: planned.map(({ step, tool }, at) => ({
      ...named(step, tool),
      risk: tool?.risk ?? null,
      asks: asks[at] ?? false,
    })),
    estimate,
    permissions: tools.map(({ name: tool, effect }) => ({ tool, effect })),
    warnings: [
      ...planned.flatMap(({ step, tool }, at) => warningsOf(step, { tool, at: at + 1 })),
      ...(estimate.costMicros === null ? ["The price of the model is not known"] : []),
      ...overBudget(run, spent, estimate),
    ],
  };
}

/** Before which of the calls a person will be asked once more; where nobody can tell, before each. */
async function foresee(run: AgentRun, tools: readonly (Tool | undefined)[]): Promise<boolean[]> {
  if (run.foresee === undefined) {
    return tools.map((tool) => tool !== undefined && tool.approval !== "never");
  }
  try {
    return await run.foresee(tools);
  } catch (error) {
    run.log.error("It could not be told which calls of a plan will be asked about", { error });
    return tools.map((tool) => tool !== undefined);
  }
}

/** The greatest risk of a plan's steps; that of a tool that is not there is not known, and counts as the greatest. */
export function riskOf({ steps }: ShownPlan): ToolRisk {
  const found = steps.map(({ risk }) => RISKS.indexOf(risk ?? "high"));
  return RISKS[Math.max(0, ...found)] ?? "high";
}

function named(step: PlanStep, tool: Tool | undefined): PlanStep {
  return { tool: tool?.name ?? visibleText(step.tool), purpose: visibleText(step.purpose) };
}

function warningsOf(
  { tool: name }: PlanStep,
  { tool, at }: { tool: Tool | undefined; at: number },
): string[] {
  if (tool === undefined) return [`Step ${at}: the agent has no tool ${visibleText(name)}`];
  const warnings = [];
  if (tool.risk === "high") warnings.push(`Step ${at}: ${tool.name} has a high risk`);
  if (tool.hints?.destructiveHint === true) {
    warnings.push(`Step ${at}: ${tool.name} says that it may destroy something`);
  }
  return warnings;
}

/** One model call for each step and one that concludes, each with all that came before it. */
function estimateRest(run: AgentRun, spent: SpentFacts, steps: number): ShownPlan["estimate"] {
  const last = spent.steps.at(-1)?.usage;
  const answer = Math.max(ANSWER_TOKENS, last?.completionTokens ?? 0);
  const modelCalls = steps + 1;
  const growth = (answer + RESULT_TOKENS) * (modelCalls * (modelCalls - 1)) / 2;
  const promptTokens = (last?.totalTokens ?? 0) * modelCalls + growth;
  const completionTokens = answer * modelCalls;
  const tokens = promptTokens + completionTokens;
  const usage = {
    ...{ promptTokens, completionTokens, totalTokens: tokens },
    ...{ cachedTokens: 0, reasoningTokens: 0 },
  };
  return { modelCalls, tokens, costMicros: run.costOf?.(usage) ?? null };
}

function overBudget(
  { budget, settings: { maxSteps } }: AgentRun,
  spent: SpentFacts,
  { modelCalls, tokens, costMicros }: ShownPlan["estimate"],
): string[] {
  const bounds: [bound: keyof RunBudget, used: number, most: number | undefined][] = [
    ["steps", spent.steps.length + modelCalls, Math.min(maxSteps, budget?.steps ?? maxSteps)],
    ["tokens", spent.usage.totalTokens + tokens, budget?.tokens],
    ["costMicros", (spent.costMicros ?? 0) + (costMicros ?? 0), budget?.costMicros],
  ];
  return bounds.flatMap(([bound, used, most]) =>
    most === undefined || used <= most
      ? []
      : [`The plan may not be finished: about ${used} ${bound} in all, and the run may use ${most}`]
  );
}
