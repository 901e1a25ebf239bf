import type { ResolvedConfig } from "../../config/load.ts";
import { didYouMean } from "../../config/nearest_name.ts";
import { fitsPattern } from "../../core/name_pattern.ts";
import type { Tool, ToolApproval } from "../../core/tool.ts";
import { mayFitServer } from "../../hub/asking_servers.ts";
import { withApprovals } from "../../run/approval_tier.ts";
import { chooseTools } from "../../run/create_agents.ts";

type Row = [string, string];
type Agents = ResolvedConfig["agents"];

/** How often a person is asked, in words. */
const OFTEN: Record<Exclude<ToolApproval, "never">, string> = {
  ask: "unless approved for longer",
  session: "once a session",
  always: "each time",
};
/** Namespace of what every agent may have without harm. */
const HARMLESS = "hub.*";

/**
 * Which tools of each agent ask a person, which agents may use every tool, and patterns that fit nothing. `toolsOf`
 * gives all that an agent can choose from; what MCP servers have is not known, so that a pattern that may fit theirs does,
 * nor are skills of workspaces.
 */
export function describeAgents(
  config: Pick<ResolvedConfig, "agents" | "mcpServers" | "workspace">,
  { toolsOf, skills }: {
    toolsOf(agent: string): readonly Tool[];
    /** Names of the operator's; null where they are not known. */
    skills: readonly string[] | null;
  },
): Row[] {
  const servers = Object.values(config.mcpServers).filter(({ enabled }) => enabled);
  const mayBeServers = (pattern: string) => servers.some((server) => mayFitServer(pattern, server));
  return Object.entries(config.agents).flatMap(([name, agent]) => {
    const all = toolsOf(name);
    const chosen = withApprovals(chooseTools(all, agent.tools), agent.approvals);
    const mayRead = chosen.some((tool) => tool.outside !== undefined) ||
      agent.tools.some((pattern) => mayBeServers(pattern.replace(/^!/, "")));
    return [
      ...describeAsking(name, { agent, chosen, mayRead }),
      ...describeOpen(name, { agent, chosen, servers: Object.keys(config.mcpServers) }),
      ...describeMisses(name, { agent, all, mayBeServers, agents: config.agents }),
      ...skills === null || (agent.workspace ?? config.workspace)
        ? []
        : describeMissedSkills(name, agent, skills),
    ];
  });
}

function describeAsking(
  name: string,
  { agent, chosen, mayRead }: {
    agent: Agents[string];
    chosen: readonly Tool[];
    mayRead: boolean;
  },
): Row[] {
  const tiers = Object.entries(OFTEN).flatMap(([tier, often]) => {
    const names = chosen.filter(({ approval }) => approval === tier).map((tool) => tool.name);
    return names.length === 0 ? [] : [`${names.join(", ")} ${often}`];
  });
  const read = mayRead && agent.approvals?.tainted !== "allow"
    ? ["every call with effects once it has read what others wrote"]
    : [];
  const asked = [...tiers, ...read];
  return [[
    "asks",
    asked.length === 0 ? `no tool of ${name} needs approval` : `${name}: ${asked.join("; ")}`,
  ]];
}

function describeOpen(
  name: string,
  { agent, chosen, servers }: {
    agent: Agents[string];
    chosen: readonly Tool[];
    servers: readonly string[];
  },
): Row[] {
  if (!agent.tools.includes("*") || agent.tools.length > 1) return [];
  const own = chosen.filter((tool) => !fitsPattern(tool.name, [HARMLESS])).map((tool) => tool.name);
  if (own.length === 0 && servers.length === 0) return [];
  const all = [
    ...own.length === 0 ? [] : [own.join(", ")],
    ...servers.length === 0 ? [] : [`every tool of the MCP servers ${servers.join(", ")}`],
  ];
  const fewer = `agents.${name}.tools can list fewer`;
  return [["open", `${name} may use every tool (${all.join("; ")}); ${fewer}`]];
}

function describeMisses(
  name: string,
  { agent, all, mayBeServers, agents }: {
    agent: Agents[string];
    all: readonly Tool[];
    mayBeServers(pattern: string): boolean;
    agents: Agents;
  },
): Row[] {
  const subAgents = Object.keys(agents).filter((one) => one !== name);
  const names = [...all.map((tool) => tool.name), ...subAgents.map((one) => `agents.${one}`)];
  const places: [place: string, patterns: readonly string[]][] = [
    ["tools", agent.tools],
    ["approvals.ask", agent.approvals?.ask ?? []],
    ...(agent.approvals?.rules ?? []).map((
      { tools = [] },
      index,
    ): [string, readonly string[]] => [`approvals.rules[${index}].tools`, tools]),
  ];
  const misses = places.flatMap(([place, patterns]) =>
    patterns
      .filter((pattern) => !fits(pattern, names) && !mayBeServers(withoutMark(pattern)))
      .map((pattern) => `${place}: ${pattern} fits no tool${didYouMean(pattern, names)}`)
  );
  const asked = agent.agents.filter((pattern) => !fits(pattern, subAgents))
    .map((pattern) => `agents: ${pattern} fits no agent${didYouMean(pattern, subAgents)}`);
  return [...misses, ...asked].map((miss): Row => ["fits nothing", `agents.${name}.${miss}`]);
}

function describeMissedSkills(
  name: string,
  { skills: patterns }: Agents[string],
  skills: readonly string[],
): Row[] {
  return patterns.filter((pattern) => pattern !== "*" && !fits(pattern, skills)).map((pattern) => [
    "fits nothing",
    `agents.${name}.skills: ${pattern} fits no skill${didYouMean(pattern, skills)}`,
  ]);
}

function fits(pattern: string, names: readonly string[]): boolean {
  return names.some((one) => fitsPattern(one, [withoutMark(pattern)]));
}

/** A pattern that takes away, as one that gives. */
function withoutMark(pattern: string): string {
  return pattern.replace(/^!/, "");
}
