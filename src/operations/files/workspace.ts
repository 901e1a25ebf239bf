import type { ResultBounds } from "../result_bounds.ts";
import { posix } from "node:path";
import type { Clock } from "../../core/clock.ts";
import { HubError } from "../../core/error.ts";
import { utf8Length } from "../text_lines.ts";

/** Where operations on files work, and how far they reach. */
export interface Workspace {
  /** Absolute path of the folder that relative paths begin at. */
  dir: string;
  /** Whether nothing outside of the folder is reached. */
  isLimited: boolean;
  /** Whether this system tells what was opened, as Linux does; else a limit holds for names only. */
  isChecked: boolean;
  /** Largest file that is read whole or written. */
  maxFileBytes: number;
  /** Program and arguments that scripts run within; none without a sandbox. */
  within: readonly string[];
  /** `PATH` of the scripts. */
  path: string;
  /** How long a script may take, 20 s when left out: one waits where a pipe comes in a file's place as it is opened. */
  timeoutMs?: number;
  /** How long a result may be; as `DEFAULT_RESULT_BOUNDS` when left out. */
  results?: ResultBounds;
  /** A text of letters and digits that nobody can guess, another each time. */
  nonce(): string;
  clock: Clock;
}

/** A path as scripts take it, and as people read it. */
export interface Place {
  /** What the folder is relative to. */
  root: string;
  folder: string;
  /** The last name; `.` for the root itself. */
  name: string;
  /** Relative to the workspace where it is inside of it, else absolute. */
  shown: string;
}

const MAX_PATH_BYTES = 4096;
const MAX_NAME_BYTES = 255;
const CONTROL = /\p{Cc}/u;

/**
 * Reads a path that a model wrote: relative to the workspace, or absolute. `.` and `..` are taken by their text. Throws
 * `invalid_request` for what is no path, and in `limited-control` for one that leads out.
 */
export function toPlace(workspace: Workspace, path: string): Place {
  const problem = findProblem(path);
  if (problem !== null) {
    throw new HubError("invalid_request", `The path ${quote(path)} ${problem}`);
  }
  const { dir, isLimited } = workspace;
  const whole = posix.resolve(dir, path);
  const inside = posix.relative(dir, whole);
  const leadsOut = inside === ".." || inside.startsWith("../");
  if (leadsOut && isLimited) throw outside(path);
  const root = isLimited ? dir : "/";
  const relative = posix.relative(root, whole);
  return {
    root,
    folder: relative === "" ? "." : posix.dirname(relative),
    name: relative === "" ? "." : posix.basename(relative),
    shown: leadsOut ? whole : inside === "" ? "." : inside,
  };
}

/** The place as a folder that is entered whole. */
export function folderOf({ folder, name }: Place): string {
  return folder === "." ? name : name === "." ? folder : `${folder}/${name}`;
}

/** The error for what is not in the workspace. */
export function outside(path: string): HubError {
  return new HubError(
    "permission_denied",
    `${quote(path)} is outside of the workspace, and this agent may reach nothing there`,
  );
}

/** A path as an error shows it. */
export function quote(path: string): string {
  return JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…` : path);
}

function findProblem(path: string): string | null {
  if (path === "") return "is empty; the workspace itself is .";
  if (CONTROL.test(path)) return "has a control character";
  if (!path.isWellFormed()) return "is no well-formed text";
  if (utf8Length(path) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`;
  if (path.split("/").some((name) => utf8Length(name) > MAX_NAME_BYTES)) {
    return `has a name of more than ${MAX_NAME_BYTES} bytes`;
  }
  return null;
}
