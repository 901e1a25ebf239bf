import { createHash } from "node:crypto";
import type { Agent } from "../config/agent_schema.ts";
import type { ResolvedConfig } from "../config/load.ts";
import type { Shell, Workspace } from "../config/workspace_schema.ts";
import { HubError } from "../core/error.ts";
import type { Tool } from "../core/tool.ts";
import { createFileOperations } from "../operations/files/file_operations.ts";
import type { Workspace as Place } from "../operations/files/workspace.ts";
import type { ResultBounds } from "../operations/result_bounds.ts";
import { createRegistry } from "../operations/registry.ts";
import { type Bubblewrap, findBubblewrap, sandboxArgv } from "../process/sandbox.ts";
import { createShellOperations } from "../operations/shell/shell_operations.ts";
import type { ShellRules } from "../operations/shell/shell.ts";
import { describeReach, isCheckedHere, type Reach } from "../process/reach.ts";
import type { HubOptions } from "./hub_options.ts";

/** The tools of agents that work in folders. */
export interface Workspaces {
  /** Those of one agent; none while it is not known what holds here. */
  toolsOf(agent: Agent): readonly Tool[];
  /** Where its files are, held as those tools are; null where it has none, or it is not known yet. */
  placeOf(agent: Agent): Place | null;
  /** Called when tools came that were not there before. */
  onChange(listener: () => void): void;
}

/** A workspace as it is held here. */
interface Opened {
  tools: readonly Tool[];
  place: Place | null;
}

const NOTHING: Opened = { tools: [], place: null };

/** Where the system keeps its programs, for a hub that has no `PATH`. */
export const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/**
 * Finds out what this system can hold operations to, as far as somebody has a workspace, and says so. Throws
 * `invalid_configuration` where a sandbox is required that does not work here.
 */
export async function openWorkspaces(
  options: Pick<HubOptions, "clock" | "log" | "env" | "randomBytes">,
  { config, own }: { config: ResolvedConfig; own: readonly Tool[] },
): Promise<Workspaces> {
  const { clock, log, env, randomBytes } = options;
  const hubPath = env("PATH") ?? DEFAULT_PATH;
  const known = new Map<string, Opened>();
  const listeners: (() => void)[] = [];
  let bubblewrap: Bubblewrap | null = null;
  let isAsking = false;

  const open = (workspace: Workspace, found: Bubblewrap): Opened => {
    const { dir, securityMode, sandbox, maxFileBytes, shell } = workspace;
    const reach = describeReach(workspace, { bubblewrap: found, isChecked: isCheckedHere() });
    const say = reach.isWeak ? log.warn : log.info;
    say(`Workspace: ${reach.words}`, { dir });
    if (sandbox === "required" && !found.works) {
      throw new HubError(
        "invalid_configuration",
        `The workspace ${dir} wants a sandbox, and ${found.reason}: install bubblewrap, or set sandbox to auto`,
      );
    }
    const isLimited = securityMode === "limited-control";
    const path = isLimited ? withoutFolder(hubPath, dir) : hubPath;
    const place = {
      dir,
      isLimited,
      isChecked: isCheckedHere(),
      maxFileBytes,
      within: isLimited && reach.isBoxed ? sandboxArgv({ folder: dir }) : [],
      path,
      timeoutMs: config.limits.toolTimeoutMs,
      results: resultBounds(config),
      nonce: () => randomBytes(16).toHex(),
      clock,
    };
    const operations = [
      ...reach.hasFiles ? createFileOperations(place) : [],
      ...shell === undefined || !reach.hasCommands
        ? []
        : createShellOperations(place, rulesOf(workspace, shell, { reach, env, path })),
    ];
    const where = createHash("sha256").update(JSON.stringify(workspace)).digest("hex");
    const tools = createRegistry({
      operations,
      toolTimeoutMs: config.limits.toolTimeoutMs,
      clock,
      log,
    }).list()
      .map((tool): Tool => ({ ...tool, place: where }));
    const taken = tools.find(({ name }) => own.some((tool) => tool.name === name));
    if (taken === undefined) return { tools, place: reach.hasFiles ? place : null };
    throw new HubError(
      "invalid_configuration",
      `An operation of yours is named ${taken.name}, as one of workspaces is: give it another name`,
    );
  };
  const openedFor = (workspace: Workspace, found: Bubblewrap) => {
    const key = JSON.stringify(workspace);
    const before = known.get(key) ?? open(workspace, found);
    known.set(key, before);
    return before;
  };
  const ask = async () => {
    isAsking = true;
    bubblewrap = await findBubblewrap({ path: hubPath, clock });
    for (const listener of listeners) listener();
  };

  const configured = [
    config.workspace,
    ...Object.values(config.agents).map((agent) => agent.workspace),
  ].filter((workspace) => workspace !== undefined && workspace !== false);
  if (configured.length > 0) {
    isAsking = true;
    const limited = configured.filter((one) => one.securityMode === "limited-control");
    const path = limited.reduce((before, { dir }) => withoutFolder(before, dir), hubPath);
    const found = await findBubblewrap({ path, clock });
    bubblewrap = found;
    for (const workspace of configured) openedFor(workspace, found);
  }
  const openedOf = (agent: Agent): Opened => {
    const workspace = agent.workspace ?? config.workspace;
    if (workspace === undefined || workspace === false) return NOTHING;
    if (bubblewrap !== null) return openedFor(workspace, bubblewrap);
    if (!isAsking) void ask();
    return NOTHING;
  };
  return {
    toolsOf: (agent) => openedOf(agent).tools,
    placeOf: (agent) => openedOf(agent).place,
    onChange: (listener) => void listeners.push(listener),
  };
}

/** How long results of tools may be, as the settings say it. */
export function resultBounds({ limits }: Pick<ResolvedConfig, "limits">): ResultBounds {
  return { bytes: limits.toolResultBytes, lines: limits.toolResultLines };
}

/** Home of commands in the sandbox, which is empty at first and gone with each. */
const SANDBOX_HOME = "/tmp";

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

/** A `PATH` by which nothing is found in a folder that agents write to. */
function withoutFolder(path: string, folder: string): string {
  return path.split(":")
    .filter((one) => one.startsWith("/") && one !== folder && !one.startsWith(`${folder}/`))
    .join(":");
}
