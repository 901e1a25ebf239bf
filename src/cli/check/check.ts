import { parseArgs } from "node:util";
import { describeConfig } from "../../config/describe.ts";
import type { LoadedConfig } from "../../config/load.ts";
import type { Workspace } from "../../config/workspace_schema.ts";
import { lookAtSkills } from "../../operations/skills/look_at_skills.ts";
import { readFound } from "../../operations/skills/skill_shelf.ts";
import { describeReach, isCheckedHere } from "../../process/reach.ts";
import { type Bubblewrap, NO_BUBBLEWRAP } from "../../process/sandbox.ts";
import { describeAgents } from "./describe_agents.ts";
import { describeServers } from "./describe_servers.ts";
import { programPath, workspacesOf } from "../../hub/workspace_tools.ts";
import { findKnownTools, type KnownTools } from "./known_tools.ts";
import { EXIT } from "../exit_codes.ts";
import { print } from "../print.ts";
import { loadSystemConfig } from "../system.ts";

type ManagedSkills = Awaited<ReturnType<typeof readFound>>;

/** `loophub check`: validates the configuration and says what it would start. */
export async function check(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const loaded = await loadSystemConfig(values.config);
  const env = (name: string) => Deno.env.get(name);
  const path = env("PATH") ?? "";
  const isProgram = (name: string) => isExecutable(name, path);
  const bubblewrap: Bubblewrap =
    await isExecutable("bwrap", programPath(workspacesOf(loaded.config), env))
      ? { works: true }
      : { works: false, reason: NO_BUBBLEWRAP };
  const known = await findKnownTools(loaded, { bubblewrap, env });
  const managed = await readManagedSkills(loaded);
  const rows = [
    ...describeOperations(known),
    ...describeWorkspaces(loaded, bubblewrap),
    ...describeSkills(loaded.config, managed),
    ...await describeServers(loaded.config, { isProgram }),
    ...describeAgents(loaded.config, {
      toolsOf: known.of,
      skills: managed?.skills.map(({ name }) => name) ?? null,
    }),
  ];
  for (const line of describeConfig(loaded, rows)) print(line);
  return EXIT.ok;
}

/** What holds operations in the folders that agents work in, as far as that can be told without starting a program. */
function describeWorkspaces(
  { config }: LoadedConfig,
  bubblewrap: Bubblewrap,
): [string, string][] {
  const row = (owner: string, workspace: Workspace): [string, string] => {
    const { words, isBoxed } = describeReach(workspace, { bubblewrap, isChecked: isCheckedHere() });
    const tried = isBoxed ? "; that it works is tried at start" : "";
    return ["workspace", `${workspace.dir}${owner}: ${words}${tried}`];
  };
  return [
    ...config.workspace === undefined ? [] : [row("", config.workspace)],
    ...Object.entries(config.agents).flatMap(([name, { workspace }]) =>
      workspace === undefined || workspace === false ? [] : [row(` of ${name}`, workspace)]
    ),
  ];
}

/** The operator's skills; null where their folder cannot be read. Workspaces' are looked at by runs alone. */
async function readManagedSkills({ config }: LoadedConfig): Promise<ManagedSkills | null> {
  if (config.skills === undefined) return { skills: [], bad: [] };
  const { dir } = config.skills;
  const found = await lookAtSkills(dir).catch(() => null);
  return found === null ? null : await readFound(found, { tier: "managed", shown: dir });
}

function describeSkills(
  { skills: settings }: LoadedConfig["config"],
  managed: ManagedSkills | null,
): [string, string][] {
  if (settings === undefined) return [];
  const { dir } = settings;
  if (managed === null) return [["skills", `${dir} is not there, or cannot be read`]];
  const names = managed.skills.map(({ name }) => name).sort().join(", ");
  return [
    ["skills", `${dir}: ${names === "" ? "none" : names}`],
    ...managed.bad.map((
      { path, problem },
    ): [string, string] => ["skills", `${path} is none: ${problem}`]),
  ];
}

/** The operations of modules, and modules that could not be looked at. */
function describeOperations({ operations, denied }: KnownTools): [string, string][] {
  return [
    ...operations.map(({ fullName, effect, risk }): [string, string] => [
      "operation",
      `${fullName}: ${effect}, risk ${risk}`,
    ]),
    ...denied.map(({ module, why }): [string, string] => [
      "operation",
      `${module} wants more than a check may do, and is imported at start alone: ${why}`,
    ]),
  ];
}

/** Whether a program is there, by its path or in the folders of `PATH`; that it works is tried at start. */
async function isExecutable(name: string, path: string): Promise<boolean> {
  const places = name.includes("/")
    ? [name]
    : path.split(":").filter((one) => one.startsWith("/")).map((folder) => `${folder}/${name}`);
  for (const place of places) {
    const found = await Deno.stat(place).catch(() => null);
    if (found?.isFile === true) return true;
  }
  return false;
}
