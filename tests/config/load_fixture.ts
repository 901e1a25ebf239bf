import { HubError } from "../../src/core/error.ts";
import { loadConfig, type LoadedConfig, type LoadOptions } from "../../src/config/load.ts";
import type { ConfigProblem } from "../../src/config/problem.ts";

/** A machine with these files, variables and Ollama. */
export interface Machine {
  /** Text of files by path; an error for one that cannot be read. */
  files?: Record<string, string | Error>;
  env?: Record<string, string>;
  path?: string;
  cwd?: string;
  probe?: LoadOptions["probe"];
}

/** Loads the configuration that this machine would get. */
export function load(
  { files = {}, env = {}, path, cwd = "/project", probe }: Machine = {},
): Promise<LoadedConfig> {
  return loadConfig({
    cwd,
    env: (name) => env[name],
    readText: (path) => {
      const text = files[path] ?? null;
      return text instanceof Error ? Promise.reject(text) : Promise.resolve(text);
    },
    ...(path === undefined ? {} : { path }),
    ...(probe === undefined ? {} : { probe }),
  });
}

/** Loads `./loophub.json` with this text or value. */
export function loadText(
  content: string | Record<string, unknown>,
  machine: Machine = {},
): Promise<LoadedConfig> {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  return load({ ...machine, files: { "/project/loophub.json": text, ...machine.files } });
}

/** The error that loading must end with, and its problems. */
export async function refusal(
  loading: Promise<LoadedConfig>,
): Promise<{ message: string; problems: ConfigProblem[]; paths: string[] }> {
  try {
    await loading;
  } catch (error) {
    if (!(error instanceof HubError) || error.code !== "invalid_configuration") throw error;
    const problems = error.details?.problems as ConfigProblem[];
    return { message: error.message, problems, paths: problems.map(({ path }) => path) };
  }
  throw new Error("The configuration was accepted");
}

/** A provider that needs nothing from the environment. */
export const LOCAL = { baseUrl: "http://127.0.0.1:8000/v1", models: ["m1", "m2"] };
