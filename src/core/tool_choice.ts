import type { FunctionDefinition, ToolChoice } from "./model.ts";

/** What a configured choice is judged by. `toWire` gives the wire name of a full tool name. */
export interface ToolChoiceFacts {
  tools: readonly FunctionDefinition[];
  toWire: (toolName: string) => string;
  /** The run has called a tool already. */
  hasCalled: boolean;
}

/**
 * A configured choice, whose name is a full tool name, as a request may carry it. One that forces a call holds for
 * the first one only (held longer, the model could never answer), and one for a tool that is not offered not at all.
 */
export function toRequestChoice(choice: ToolChoice, facts: ToolChoiceFacts): ToolChoice {
  if (choice === "auto" || choice === "none") return choice;
  if (facts.hasCalled) return "auto";
  if (choice === "required") return choice;
  const name = facts.toWire(choice.name);
  return facts.tools.some((tool) => tool.name === name) ? { name } : "auto";
}
