import type { LoadedConfig } from "../../config/load.ts";
import { HubError } from "../../core/error.ts";
import { SILENT_LOG } from "../../core/log.ts";
import type { Tool } from "../../core/tool.ts";
import { wantsResources } from "../../hub/content_tools.ts";
import {
  assertNamesFree,
  openWorkspace,
  programPath,
  workspacesOf,
} from "../../hub/workspace_tools.ts";
import { createBuiltinOperations } from "../../operations/builtin/builtin_operations.ts";
import { createMcpResources } from "../../operations/builtin/mcp_resources.ts";
import { loadOperationModules } from "../../operations/load_modules.ts";
import type { Operation } from "../../operations/operation.ts";
import { createRegistry } from "../../operations/registry.ts";
import { createSkillOperations } from "../../operations/skills/skill_operations.ts";
import { toTool } from "../../operations/to_tool.ts";
import type { Bubblewrap } from "../../process/sandbox.ts";
import { systemClock } from "../system_clock.ts";

/** The tools that agents can have as far as that is known before a start, which is all but those of MCP servers. */
export interface KnownTools {
  /** Operations of the operator's modules. */
  operations: readonly Operation[];
  /** Modules that want more than a check may do, and what; nothing is known of their operations. */
  denied: readonly { module: string; why: string }[];
  /** What an agent's patterns choose from. */
  of(agent: string): readonly Tool[];
}

/**
 * Finds the tools by importing the operator's modules and looking at the configuration: no program is started, nothing
 * is connected to. Throws `invalid_configuration` for what a start would be refused for.
 */
export async function findKnownTools(
  { config, folder }: LoadedConfig,
  { bubblewrap, env }: { bubblewrap: Bubblewrap; env(name: string): string | undefined },
): Promise<KnownTools> {
  const denied: { module: string; why: string }[] = [];
  const operations = await loadOperationModules(config.operations.modules, {
    folder,
    onDenied: (module, why) => denied.push({ module, why }),
  });
  const own = createRegistry({
    operations: [...createBuiltinOperations(NOTHING_STORED), ...operations],
    toolTimeoutMs: config.limits.toolTimeoutMs,
    clock: systemClock,
    log: SILENT_LOG,
  }).list();
  const forWorkspaces = {
    clock: systemClock,
    log: SILENT_LOG,
    env,
    randomBytes: (length: number) => crypto.getRandomValues(new Uint8Array(length)),
    limits: config.limits,
    path: programPath(workspacesOf(config), env),
  };
  const skills = createSkillOperations({
    skills: () => Promise.resolve([]),
    toolNames: () => [],
  }).map((operation) => toTool(operation));
  const resources = createMcpResources({
    list: () => Promise.resolve({ resources: [], away: [] }),
    read: () => Promise.reject(new HubError("not_found", "No server is connected")),
  }).map((operation) => toTool(operation));
  return {
    operations,
    denied,
    of(name) {
      const agent = config.agents[name];
      if (agent === undefined) return [];
      const workspace = (agent.workspace ?? config.workspace) || null;
      const files = workspace === null
        ? []
        : openWorkspace(workspace, bubblewrap, forWorkspaces).tools;
      assertNamesFree(files, own);
      const hasSkills = agent.skills.length > 0 &&
        (workspace !== null || config.skills !== undefined);
      const hasResources = Object.keys(config.mcpServers).length > 0 &&
        wantsResources(agent.tools);
      return [
        ...own,
        ...files,
        ...hasSkills ? skills : [],
        ...hasResources ? resources : [],
      ];
    },
  };
}

/** What a check has of what runs have stored: nothing. */
const NOTHING_STORED = {
  readBlob: () => Promise.resolve(null),
  readOutcome: () => Promise.resolve(null),
  readMessages: () => Promise.resolve([]),
};
