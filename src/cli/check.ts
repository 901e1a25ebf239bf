import { parseArgs } from "node:util";
import { describeConfig } from "../config/describe.ts";
import type { LoadedConfig } from "../config/load.ts";
import type { Workspace } from "../config/workspace_schema.ts";
import { lookAtSkills } from "../operations/skills/look_at_skills.ts";
import { readFound } from "../operations/skills/skill_shelf.ts";
import { describeReach, isCheckedHere } from "../process/reach.ts";
import { type Bubblewrap, NO_BUBBLEWRAP } from "../process/sandbox.ts";
import { EXIT } from "./exit_codes.ts";
import { print } from "./print.ts";
import { loadSystemConfig } from "./system.ts";

/** `loophub check`: validates the configuration and says what it would start. */
export async function check(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const loaded = await loadSystemConfig(values.config);
  const rows = [...await describeWorkspaces(loaded), ...await describeSkills(loaded)];
  for (const line of describeConfig(loaded, rows)) print(line);
  return EXIT.ok;
}

/** What holds operations in the folders that agents work in, as far as that can be told without starting a program. */
async function describeWorkspaces({ config }: LoadedConfig): Promise<[string, string][]> {
  const bubblewrap = await lookForBubblewrap(Deno.env.get("PATH") ?? "");
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

/** The operator's skills, and those that cannot be used. Workspaces' are looked at by runs alone. */
async function describeSkills({ config }: LoadedConfig): Promise<[string, string][]> {
  if (config.skills === undefined) return [];
  const { dir } = config.skills;
  const found = await lookAtSkills(dir).catch(() => null);
  if (found === null) return [["skills", `${dir} is not there, or cannot be read`]];
  const { skills, bad } = await readFound(found, { tier: "managed", shown: dir });
  const names = skills.map(({ name }) => name).sort().join(", ");
  return [
    ["skills", `${dir}: ${names === "" ? "none" : names}`],
    ...bad.map(({ path, problem }): [string, string] => ["skills", `${path} is none: ${problem}`]),
  ];
}

/** Whether it is there; that it works is tried at start. */
async function lookForBubblewrap(path: string): Promise<Bubblewrap> {
  for (const folder of path.split(":").filter((one) => one.startsWith("/"))) {
    const found = await Deno.stat(`${folder}/bwrap`).catch(() => null);
    if (found?.isFile === true) return { works: true };
  }
  return { works: false, reason: NO_BUBBLEWRAP };
}
