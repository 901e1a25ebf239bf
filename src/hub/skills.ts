import type { Agent } from "../config/agent_schema.ts";
import type { ResolvedConfig } from "../config/load.ts";
import { createChooser } from "../core/name_pattern.ts";
import type { Tool } from "../core/tool.ts";
import type { Workspace as Place } from "../operations/files/workspace.ts";
import { WorkspaceFiles } from "../operations/files/workspace_files.ts";
import { createSkillFolder } from "../operations/skills/skill_folder.ts";
import type { ResultBounds } from "../operations/result_bounds.ts";
import {
  createSkillOperations,
  describeSkills,
  NAMESPACE,
} from "../operations/skills/skill_operations.ts";
import { type Shelved, SkillShelf } from "../operations/skills/skill_shelf.ts";
import { toTool } from "../operations/to_tool.ts";
import { isCheckedHere } from "../process/reach.ts";
import type { RunnableAgent } from "../run/runnable_agent.ts";
import type { HubOptions } from "./hub_options.ts";
import { DEFAULT_PATH } from "./workspace_tools.ts";
import type { Workspaces } from "./workspaces.ts";

/** What agents know how to do, written down by operators and in workspaces. */
export interface Skills {
  /** The operations on them, for agents that may have any. */
  toolsOf(agent: Agent): readonly Tool[];
  /** An agent as a run begins with it: told of the skills that there are now. Never rejects. */
  dress(agent: RunnableAgent): Promise<RunnableAgent>;
  /** What there is for an agent, and what cannot be used. */
  list(agent: Agent): Promise<Shelved>;
}

/** Where workspaces have them. */
const WORKSPACE_FOLDER = ".loophub/skills";
/** Largest file of a managed skill. */
const MAX_FILE_BYTES = 1024 * 1024;
const NOTHING: Shelved = { skills: [], bad: [] };

/** Joins the operator's folder of skills with those of workspaces. */
export function openSkills(
  options: Pick<HubOptions, "clock" | "log" | "env" | "randomBytes">,
  { dir, workspaces, agents, toolNames, timeoutMs, results }: {
    dir: string | undefined;
    workspaces: Pick<Workspaces, "placeOf">;
    /** Those that count now. */
    agents(): ResolvedConfig["agents"];
    /** Full names of an agent's tools. */
    toolNames(agent: string): readonly string[];
    timeoutMs: number;
    results: ResultBounds;
  },
): Skills {
  const { clock, log, env, randomBytes } = options;
  const shelves = new Map<Place | null, SkillShelf>();
  const folderOf = (place: Place, path: string) => {
    const held = { ...place, isLimited: true };
    return createSkillFolder(held, { files: new WorkspaceFiles(held), path });
  };
  const managed = dir === undefined ? [] : [{
    tier: "managed" as const,
    home: folderOf({
      dir,
      isLimited: true,
      isChecked: isCheckedHere(),
      maxFileBytes: MAX_FILE_BYTES,
      within: [],
      path: env("PATH") ?? DEFAULT_PATH,
      nonce: () => randomBytes(16).toHex(),
      clock,
    }, "."),
  }];
  const shelfOf = (agent: Agent): SkillShelf | null => {
    const place = workspaces.placeOf(agent);
    if (agent.skills.length === 0 || (place === null && dir === undefined)) return null;
    const own = place === null
      ? []
      : [{ tier: "workspace" as const, home: folderOf(place, WORKSPACE_FOLDER) }];
    const shelf = shelves.get(place) ?? new SkillShelf([...managed, ...own], { clock, log });
    shelves.set(place, shelf);
    return shelf;
  };
  const list = async (agent: Agent): Promise<Shelved> => {
    const { skills, bad } = await shelfOf(agent)?.read() ?? NOTHING;
    const isChosen = createChooser(agent.skills);
    return { skills: skills.filter(({ name }) => isChosen(name)), bad };
  };
  return {
    list,
    toolsOf(agent) {
      if (shelfOf(agent) === null) return [];
      // Whoever writes in a workspace writes its skills.
      const outside = workspaces.placeOf(agent) === null
        ? {}
        : { outside: { source: NAMESPACE, sends: false } };
      const skills = async () => (await list(agent)).skills;
      return createSkillOperations({ skills, toolNames, results })
        .map((operation): Tool => ({ ...toTool(operation, { timeoutMs }), ...outside }));
    },
    async dress(agent) {
      const { settings: { name }, tools, instructions = [] } = agent;
      const configured = agents()[name];
      if (configured === undefined || shelfOf(configured) === null) return agent;
      const { skills } = await list(configured);
      if (skills.length === 0) {
        // Where tools are searched for, what is found has to be there.
        if (agent.offer !== undefined) return agent;
        return { ...agent, tools: tools.filter((tool) => !isOfSkills(tool)) };
      }
      // Told of what it cannot load, a model would look for a way.
      if (!tools.some(isOfSkills)) return agent;
      const told = { source: NAMESPACE, text: describeSkills(skills) };
      return { ...agent, instructions: [...instructions, told] };
    },
  };
}

function isOfSkills({ name }: Tool): boolean {
  return name.startsWith(`${NAMESPACE}.`);
}
