import { HubError } from "../core/error.ts";

/** What of the system says which `sh` may be started. */
export interface ShellGround {
  path: string;
  isProgram(file: string): boolean;
  mayRun(file: string): boolean;
}

/** Of a hub that has none. */
const DEFAULT_PATH = "/usr/bin:/bin";

let known: { path: string; file: string } | null = null;

/**
 * The `sh` of the hub's own `PATH`: the file that `--allow-run=sh` stands for. A name would be looked for in the `PATH`
 * that the child gets, where it may be another file, which the hub may not start.
 */
export function shellProgram(): string {
  const path = Deno.env.get("PATH") ?? DEFAULT_PATH;
  if (known?.path === path) return known.file;
  const file = findShell({ path, isProgram, mayRun });
  known = { path, file };
  return file;
}

/** Looks for that file. Throws `invalid_configuration` where there is none, or none that may be started. */
export function findShell({ path, isProgram, mayRun }: ShellGround): string {
  const folders = path.split(":").filter((folder) => folder.startsWith("/"));
  const file = folders.map((folder) => `${folder.replace(/\/+$/, "")}/sh`).find(isProgram);
  if (file === undefined) {
    throw new HubError(
      "invalid_configuration",
      `The hub starts programs by sh, and no folder of PATH (${path}) has it: add the folder of sh, often /bin, to PATH`,
    );
  }
  if (mayRun(file)) return file;
  throw new HubError(
    "invalid_configuration",
    `The hub starts programs by ${file}, the sh of its PATH, and has no permission to run it: start it with --allow-run=sh, as its tasks do`,
  );
}

function mayRun(command: string): boolean {
  return Deno.permissions.querySync({ name: "run", command }).state === "granted";
}

function isProgram(file: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(file);
    return isFile && (mode === null || (mode & 0o111) !== 0);
  } catch {
    return false;
  }
}
