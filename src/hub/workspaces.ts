import type { Agent } from "../config/agent_schema.ts";
import type { ResolvedConfig } from "../config/load.ts";
import type { Workspace } from "../config/workspace_schema.ts";
import { HubError } from "../core/error.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import type { Workspace as Place } from "../operations/files/workspace.ts";
import { type Bubblewrap, findBubblewrap } from "../process/sandbox.ts";
import type { HubOptions } from "./hub_options.ts";
import {
  assertNamesFree,
  openWorkspace,
  placeHash,
  programPath,
  workspacesOf,
} from "./workspace_tools.ts";

/** The tools of agents that work in folders. */
export interface Workspaces {
  /** Those of one agent. */
  toolsOf(agent: Agent): readonly Tool[];
  /** Where its files are, held as those tools are; null where it has none. */
  placeOf(agent: Agent): Place | null;
  /**
   * Opens the workspaces of a configuration before it counts. Throws `invalid_configuration` where one wants a sandbox
   * that does not work here, or has a tool of a name that is taken.
   */
  prepare(config: ResolvedConfig): Promise<void>;
}

/** What is known of a workspace while it is configured. */
interface Opened extends Pick<ReturnType<typeof openWorkspace>, "tools" | "place"> {
  /** What it found on the system: with something else it is opened again. */
  system: string;
}

const GONE = "its workspace is not configured any more";
const CHANGED = "its workspace has changed since the run began; the next message takes the new one";
const NOTHING: Opened = { tools: [], place: null, system: "" };

/**
 * Finds out what this system can hold operations to, as far as somebody has a workspace, and says so. Throws as `prepare`
 * does. `live` is the configuration that counts now: a call for a workspace that its agent has no more is refused.
 */
export async function openWorkspaces(
  options: Pick<HubOptions, "clock" | "log" | "env" | "randomBytes">,
  { config, own, live }: {
    config: ResolvedConfig;
    own: readonly Tool[];
    live(): Pick<ResolvedConfig, "agents" | "workspace">;
  },
): Promise<Workspaces> {
  const { log, env, clock } = options;
  const known = new Map<string, Opened>();

  const open = (
    workspace: Workspace,
    { path, found, system }: { path: string; found: Bubblewrap; system: string },
  ): Opened => {
    const { dir } = workspace;
    const key = JSON.stringify(workspace);
    const isCurrent = () => known.get(key)?.system === system;
    const { tools, place, reach } = openWorkspace(workspace, found, {
      ...options,
      limits: config.limits,
      path,
    });
    const say = reach.isWeak ? log.warn : log.info;
    say(`Workspace: ${reach.words}`, { dir });
    assertSandbox(workspace, found);
    assertNamesFree(tools, own);
    return {
      tools: tools.map((tool) => whileConfigured(tool, { live, isCurrent })),
      place,
      system,
    };
  };
  const prepare = async (next: ResolvedConfig) => {
    const configured = workspacesOf(next);
    if (configured.length === 0) return;
    // Looked for each time: programs come and go, and so do the folders that agents write to.
    const path = programPath(configured, env);
    const found = await findBubblewrap({ path, clock });
    const system = JSON.stringify([path, found]);
    const opened = configured.map((workspace): [string, Opened] => {
      const key = JSON.stringify(workspace);
      const before = known.get(key);
      return [key, before?.system === system ? before : open(workspace, { path, found, system })];
    });
    const before = new Set(workspacesOf(live()).map((one) => JSON.stringify(one)));
    for (const key of known.keys()) if (!before.has(key)) known.delete(key);
    for (const [key, one] of opened) known.set(key, one);
  };
  await prepare(config);
  const openedOf = (agent: Agent): Opened => {
    const workspace = workspaceOf(agent, live());
    return workspace === null ? NOTHING : known.get(JSON.stringify(workspace)) ?? NOTHING;
  };
  return {
    toolsOf: (agent) => openedOf(agent).tools,
    placeOf: (agent) => openedOf(agent).place,
    prepare,
  };
}

function assertSandbox({ dir, sandbox }: Workspace, found: Bubblewrap): void {
  if (sandbox !== "required" || found.works) return;
  throw new HubError(
    "invalid_configuration",
    `The workspace ${dir} wants a sandbox, and ${found.reason}: install bubblewrap, or set sandbox to auto`,
  );
}

/** The workspace that an agent works in; null for none. */
function workspaceOf(
  agent: Pick<Agent, "workspace">,
  { workspace: shared }: Pick<ResolvedConfig, "workspace">,
): Workspace | null {
  return (agent.workspace ?? shared) || null;
}

/** The tool, which refuses calls of runs that began before their agent's workspace was changed or taken away. */
function whileConfigured(
  tool: Tool,
  { live, isCurrent }: {
    live(): Pick<ResolvedConfig, "agents" | "workspace">;
    /** Whether it was made with what the system has now. */
    isCurrent(): boolean;
  },
): Tool {
  const assertConfigured = ({ agent: name }: Pick<ToolContext, "agent">) => {
    const config = live();
    const agent = Object.hasOwn(config.agents, name) ? config.agents[name] : undefined;
    const workspace = agent === undefined ? null : workspaceOf(agent, config);
    if (workspace !== null && placeHash(workspace) === tool.place && isCurrent()) return;
    throw new HubError("conflict", `Not executed: ${workspace === null ? GONE : CHANGED}`);
  };
  const { preview } = tool;
  return {
    ...tool,
    // A preview does not know its agent: it is made while any agent has the folder.
    ...preview === undefined ? {} : {
      async preview(input, context) {
        const isThere = workspacesOf(live()).some((one) => placeHash(one) === tool.place);
        if (isThere && isCurrent()) return await preview(input, context);
        throw new HubError("conflict", `Not executed: ${isThere ? CHANGED : GONE}`);
      },
    },
    async execute(input, context) {
      assertConfigured(context);
      return await tool.execute(input, context);
    },
  };
}
