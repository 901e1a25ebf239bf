import type { Approvals } from "../config/agent_schema.ts";
import { fitsPattern } from "../core/name_pattern.ts";
import type { Tool, ToolApproval } from "../core/tool.ts";

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
