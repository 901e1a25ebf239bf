import { resolve } from "node:path";
import { spelledNames } from "../core/name_pattern.ts";
import type { Agent } from "./agent_schema.ts";
import { checkModelName, type ModelNames } from "./check_models.ts";
import { describeReadError } from "./find_file.ts";
import type { ProblemList } from "./problem.ts";

/** What agents are checked against. */
export interface AgentCheck {
  /** Names of all agents. */
  others?: readonly string[];
  names: ModelNames;
  /** For agents that name no model; null when there is none. */
  defaultModel: string | null;
  /** Base of relative paths. */
  folder: string;
  readText: (path: string) => Promise<string | null>;
  problems: ProblemList;
}

const MAX_PROMPT_CHARACTERS = 1024 * 1024;

/** Fields of a request that the hub writes itself, and settings of the agent that already stand for one. */
const OWN_FIELDS: readonly string[] = [
  "max_completion_tokens",
  "max_tokens",
  "messages",
  "model",
  "n",
  "parallel_tool_calls",
  "stream",
  "stream_options",
  "temperature",
  "tool_choice",
  "tools",
  "top_p",
];

/** Reads prompt files, fills in models, and checks what a schema cannot. */
export async function completeAgents(
  agents: Record<string, Agent>,
  check: AgentCheck,
): Promise<Record<string, Agent>> {
  const completed = await Promise.all(
    Object.entries(agents).map(async (
      [name, agent],
    ) => [name, await completeAgent(name, agent, { ...check, others: Object.keys(agents) })]),
  );
  return Object.fromEntries(completed);
}

async function completeAgent(name: string, agent: Agent, check: AgentCheck): Promise<Agent> {
  const { names, problems, defaultModel, others = [] } = check;
  for (const [index, model] of agent.models.entries()) {
    checkModelName(model, { names, problems, path: ["agents", name, "models", index] });
  }
  for (const [index, other] of agent.agents.entries()) {
    if (spelledNames([other]).every((one) => one !== name && others.includes(one))) continue;
    problems.add(["agents", name, "agents", index], {
      got: JSON.stringify(other),
      wanted: "the name of another agent, or a pattern over their names",
    });
  }
  for (const field of Object.keys(agent.extra ?? {})) {
    if (!OWN_FIELDS.includes(field)) continue;
    problems.add(["agents", name, "extra", field], {
      got: "a field that the hub writes itself",
      wanted: "another field, or the agent's own setting for it",
    });
  }
  const systemPrompt = await readPrompt(name, agent, check);
  const models = agent.models.length > 0 || defaultModel === null ? agent.models : [defaultModel];
  return { ...agent, models, ...(systemPrompt === undefined ? {} : { systemPrompt }) };
}

async function readPrompt(
  name: string,
  { systemPrompt, systemPromptFile }: Agent,
  { folder, readText, problems }: AgentCheck,
): Promise<string | undefined> {
  if (systemPromptFile === undefined) return systemPrompt;
  const path = ["agents", name, "systemPromptFile"];
  if (systemPrompt !== undefined) {
    problems.add(path, { got: "a file beside systemPrompt", wanted: "only one of the two" });
    return systemPrompt;
  }
  const file = resolve(folder, systemPromptFile);
  try {
    const text = await readText(file);
    if (text === null) {
      problems.add(path, { got: `no file at ${file}`, wanted: "a readable text file" });
    } else if (text.length > MAX_PROMPT_CHARACTERS) {
      problems.add(path, {
        got: `a file of ${text.length} characters`,
        wanted: `at most ${MAX_PROMPT_CHARACTERS} characters`,
      });
    } else {
      return text;
    }
  } catch (error) {
    const got = `a file that cannot be read (${describeReadError(error)})`;
    problems.add(path, { got, wanted: "a readable text file" });
  }
  return undefined;
}
