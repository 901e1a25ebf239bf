import { isAbsolute, join, resolve } from "node:path";
import type { HubError } from "../core/error.ts";
import { invalidConfiguration } from "./problem.ts";

/** Where to look for the configuration file. */
export interface FindFileOptions {
  /** The path given with `--config`, relative to `cwd`. */
  path?: string;
  cwd: string;
  env: (name: string) => string | undefined;
  /** Text of a file; null when there is none at that path; rejects when there is one that cannot be read. */
  readText: (path: string) => Promise<string | null>;
}

/** A configuration file and its text. */
export interface FoundFile {
  /** Absolute. */
  path: string;
  text: string;
}

/**
 * The first configuration file of: the given path and nothing else; `./loophub.json`;
 * `$XDG_CONFIG_HOME/loophub/loophub.json` (when it is absolute, as the XDG Base Directory Specification demands);
 * `~/.config/loophub/loophub.json`. Null when there is none. Throws `invalid_configuration` when the given path
 * names no file, or when a file is there and cannot be read: settings are never passed over in silence.
 */
export async function findConfigFile(options: FindFileOptions): Promise<FoundFile | null> {
  const { path, cwd } = options;
  if (path !== undefined) {
    const absolute = resolve(cwd, path);
    const text = await read(absolute, options);
    if (text === null) throw unreadable(absolute, "no file at this path");
    return { path: absolute, text };
  }
  for (const candidate of listCandidates(options)) {
    const text = await read(candidate, options);
    if (text !== null) return { path: candidate, text };
  }
  return null;
}

function listCandidates({ cwd, env }: FindFileOptions): string[] {
  const candidates = [join(cwd, "loophub.json")];
  const xdg = env("XDG_CONFIG_HOME");
  if (xdg !== undefined && isAbsolute(xdg)) candidates.push(join(xdg, "loophub", "loophub.json"));
  const home = env("HOME");
  if (home !== undefined && isAbsolute(home)) {
    candidates.push(join(home, ".config", "loophub", "loophub.json"));
  }
  return candidates;
}

async function read(path: string, { readText }: FindFileOptions): Promise<string | null> {
  try {
    return await readText(path);
  } catch (error) {
    throw unreadable(path, `a file that cannot be read (${describeReadError(error)})`);
  }
}

function unreadable(path: string, got: string): HubError {
  return invalidConfiguration(path, [{ path: "--config", got, wanted: "a readable file" }]);
}

/** The name of what went wrong (`PermissionDenied`, `IsADirectory`); the system's message would repeat the path. */
export function describeReadError(error: unknown): string {
  return error instanceof Error ? error.name : "unknown error";
}
