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
  if (workspace.securityMode === "limited-control") {
    const held = [
      ["the configuration file", own.source],
      ["the hub's data", resolve(own.folder, own.dataDir)],
      ...own.modules.map((module) => ["a module with operations", module]),
    ].find(([, place]) => typeof place === "string" && isWithin(dir, place));
    if (held !== undefined) {
      own.problems.add([...path, "dir"], {
        got: `${dir}, which holds ${held[0]}`,
        wanted: "a folder with nothing of the hub's own, or the securityMode full-control",
      });
    }
  }
  return { ...workspace, dir };
}

function isWithin(folder: string, place: string): boolean {
  const path = relative(folder, place);
  return path !== ".." && !path.startsWith("../");
}
