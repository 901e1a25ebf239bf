import { relative, resolve } from "node:path";
import type { Agent } from "./agent_schema.ts";
import type { ConfigPath } from "./config_path.ts";
import type { ProblemList } from "./problem.ts";
import type { Workspace } from "./workspace_schema.ts";

/** What is the hub's own, and no agent's to read or change. */
export interface HubsOwn {
  /** Base of relative paths. */
  folder: string;
  /** The configuration file; null when there is none. */
  source: string | null;
  /** The folder of the embedded Postgres as it was configured. */
  dataDir: string;
  /** Modules with operations, absolute. */
  modules: readonly string[];
  /** The folder of skills, absolute; null when there is none. */
  skills: string | null;
  problems: ProblemList;
}

/** Makes the folders of workspaces absolute. One that is limited must not hold what would let an agent out of it. */
export function completeWorkspaces(
  workspace: Workspace | undefined,
  agents: Readonly<Record<string, Agent>>,
  own: HubsOwn,
): { workspace?: Workspace; agents: Record<string, Agent> } {
  const completed = Object.entries(agents).map(([name, agent]): [string, Agent] => {
    if (agent.workspace === undefined || agent.workspace === false) return [name, agent];
    const path = ["agents", name, "workspace"];
    return [name, { ...agent, workspace: complete(agent.workspace, path, own) }];
  });
  return {
    agents: Object.fromEntries(completed),
    ...workspace === undefined ? {} : { workspace: complete(workspace, ["workspace"], own) },
  };
}

function complete(workspace: Workspace, path: ConfigPath, own: HubsOwn): Workspace {
  const dir = resolve(own.folder, workspace.dir);
  const isLimited = workspace.securityMode === "limited-control";
  const check = (place: string, at: ConfigPath) => {
    const held = isLimited ? findHeld(place, own) : null;
    if (held === null) return;
    own.problems.add(at, {
      got: `${place}, which holds ${held}`,
      wanted: "a folder with nothing of the hub's own, or the securityMode full-control",
    });
  };
  check(dir, [...path, "dir"]);
  const { shell, ...rest } = workspace;
  if (shell === undefined) return { ...rest, dir };
  const isOpen = !isLimited || shell.script;
  if (shell.allow.length === 0 && !isOpen) {
    own.problems.add([...path, "shell", "allow"], {
      got: "no commands",
      wanted: "those that may run in limited-control",
    });
  }
  const readOnly = shell.readOnly.map((one) => resolve(own.folder, one));
  for (const [index, one] of readOnly.entries()) check(one, [...path, "shell", "readOnly", index]);
  return { ...rest, dir, shell: { ...shell, readOnly } };
}

/** What of the hub's own is in a folder. */
function findHeld(folder: string, own: HubsOwn): string | null {
  if (own.source !== null && isWithin(folder, own.source)) return "the configuration file";
  if (isWithin(folder, resolve(own.folder, own.dataDir))) return "the hub's data";
  if (own.skills !== null && isWithin(folder, own.skills)) return "the hub's skills";
  return own.modules.some((module) => isWithin(folder, module)) ? "a module with operations" : null;
}

function isWithin(folder: string, place: string): boolean {
  const path = relative(folder, place);
  return path !== ".." && !path.startsWith("../");
}
