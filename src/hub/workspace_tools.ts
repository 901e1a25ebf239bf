import { createHash } from "node:crypto";
import type { ResolvedConfig } from "../config/load.ts";
import type { Shell, Workspace } from "../config/workspace_schema.ts";
import { HubError } from "../core/error.ts";
import type { Tool } from "../core/tool.ts";
import { createFileOperations } from "../operations/files/file_operations.ts";
import type { Workspace as Place } from "../operations/files/workspace.ts";
import { createRegistry } from "../operations/registry.ts";
import type { ResultBounds } from "../operations/result_bounds.ts";
import type { ShellRules } from "../operations/shell/shell.ts";
import { createShellOperations } from "../operations/shell/shell_operations.ts";
import { describeReach, isCheckedHere, type Reach } from "../process/reach.ts";
import { type Bubblewrap, sandboxArgv } from "../process/sandbox.ts";
import type { HubOptions } from "./hub_options.ts";

/** What the tools of workspaces are made from. */
export type WorkspaceTools = Pick<HubOptions, "clock" | "log" | "env" | "randomBytes"> & {
  limits: ResolvedConfig["limits"];
  /** Where programs are looked for, `programPath` of the whole configuration. */
  path: string;
};

/** A workspace as it is held on one system. */
export interface OpenedWorkspace {
  tools: readonly Tool[];
  /** Where its files are; null where none are offered. */
  place: Place | null;
  reach: Reach;
}

/** Where the system keeps its programs, for a hub that has no `PATH`. */
export const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/** Home of commands in the sandbox, which is empty at first and gone with each. */
const SANDBOX_HOME = "/tmp";

/** The tools of a workspace on a system with this bubblewrap. Starts no program and reads no file. */
export function openWorkspace(
  workspace: Workspace,
  bubblewrap: Bubblewrap,
  { clock, log, env, randomBytes, limits, path }: WorkspaceTools,
): OpenedWorkspace {
  const { dir, securityMode, maxFileBytes, shell, approval } = workspace;
  const reach = describeReach(workspace, { bubblewrap, isChecked: isCheckedHere() });
  const isLimited = securityMode === "limited-control";
  const place = {
    dir,
    isLimited,
    isChecked: isCheckedHere(),
    maxFileBytes,
    within: isLimited && reach.isBoxed ? sandboxArgv({ folder: dir }) : [],
    path,
    timeoutMs: limits.toolTimeoutMs,
    results: resultBounds({ limits }),
    nonce: () => randomBytes(16).toHex(),
    clock,
  };
  const operations = [
    ...reach.hasFiles ? createFileOperations(place) : [],
    ...shell === undefined || !reach.hasCommands
      ? []
      : createShellOperations(place, rulesOf(workspace, shell, { reach, env, path })),
  ];
  const { toolTimeoutMs } = limits;
  const where = placeHash(workspace);
  const tools = createRegistry({ operations, toolTimeoutMs, clock, log }).list().map((
    tool,
  ): Tool => ({
    ...tool,
    place: where,
    approval: tool.effect === "pure" ? tool.approval : approval,
  }));
  return { tools, place: reach.hasFiles ? place : null, reach };
}

/** Tells workspaces apart by where they are and what holds there, not by who is asked. */
export function placeHash({ approval: _, ...place }: Workspace): string {
  return createHash("sha256").update(JSON.stringify(place)).digest("hex");
}

/** All workspaces that a configuration names. */
export function workspacesOf(
  { workspace, agents }: Pick<ResolvedConfig, "workspace" | "agents">,
): Workspace[] {
  return [workspace, ...Object.values(agents).map((agent) => agent.workspace)]
    .filter((one) => one !== undefined && one !== false);
}

/** Throws `invalid_configuration` where an operation of a module has the name of one of these tools. */
export function assertNamesFree(tools: readonly Tool[], own: readonly Pick<Tool, "name">[]): void {
  const taken = tools.find(({ name }) => own.some((tool) => tool.name === name));
  if (taken === undefined) return;
  throw new HubError(
    "invalid_configuration",
    `An operation of yours is named ${taken.name}, as one of workspaces is: give it another name`,
  );
}

/** How long results of tools may be, as the settings say it. */
export function resultBounds({ limits }: Pick<ResolvedConfig, "limits">): ResultBounds {
  return { bytes: limits.toolResultBytes, lines: limits.toolResultLines };
}

/**
 * The hub's `PATH` without the folders that agents with limited control write to: what one of them leaves there is no
 * program of another.
 */
export function programPath(
  configured: readonly Workspace[],
  env: HubOptions["env"],
): string {
  return configured.filter(({ securityMode }) => securityMode === "limited-control")
    .reduce((path, { dir }) => withoutFolder(path, dir), env("PATH") ?? DEFAULT_PATH);
}

function withoutFolder(path: string, folder: string): string {
  return path.split(":")
    .filter((one) => one.startsWith("/") && one !== folder && !one.startsWith(`${folder}/`))
    .join(":");
}

function rulesOf(
  { dir, securityMode }: Workspace,
  shell: Shell,
  { reach, env, path }: { reach: Reach; path: string; env: HubOptions["env"] },
): ShellRules {
  const { network, readOnly, allow, env: own, ...rest } = shell;
  const isLimited = securityMode === "limited-control";
  const home = isLimited && reach.isBoxed ? SANDBOX_HOME : env("HOME") ?? "/";
  const folder = isLimited ? dir : null;
  return {
    ...rest,
    allow: isLimited || allow.length > 0 ? allow : null,
    script: reach.hasScripts,
    env: { PATH: path, HOME: home, ...own },
    within: reach.isBoxed ? sandboxArgv({ folder, readOnly, network: network || !isLimited }) : [],
  };
}
