import type { Approvals } from "../config/agent_schema.ts";
import { fitsPattern } from "../core/name_pattern.ts";
import type { Tool, ToolApproval } from "../core/tool.ts";

/** The tools as an agent has them: each with what its rules say of asking a person, where it has such. */
export function withApprovals(
  tools: readonly Tool[],
  approvals: Approvals | undefined,
): readonly Tool[] {
  if (approvals === undefined) return tools;
  return tools.map((tool): Tool => ({ ...tool, approval: approvalOf(tool, approvals) }));
}

/** Whether an agent asks a person before a tool runs: by the first rule that fits, else by what the tool says of itself. */
export function approvalOf(tool: Tool, { ask, rules }: Approvals): ToolApproval {
  const { name, effect, risk } = tool;
  const rule = rules.find(({ tools, effects, risks }) =>
    (tools === undefined || fitsPattern(name, tools)) &&
    (effects === undefined || effects.includes(effect)) &&
    (risks === undefined || risks.includes(risk))
  );
  const said = rule === undefined ? tool.approval : rule.tier === "auto" ? "never" : rule.tier;
  return said === "never" && fitsPattern(name, ask) ? "ask" : said;
}
