import { resolve } from "node:path";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { formatPath } from "./config_path.ts";

interface Override {
  variable: string;
  section: string;
  name: string;
}

/** Environment variables that win over the file, each with the setting it stands for. */
export const OVERRIDES: readonly Override[] = [
  { variable: "DATABASE_URL", section: "database", name: "url" },
  { variable: "LOOPHUB_DATA_DIR", section: "database", name: "dataDir" },
  { variable: "LOOPHUB_HOST", section: "server", name: "host" },
  { variable: "LOOPHUB_PORT", section: "server", name: "port" },
  { variable: "LOOPHUB_LOG_LEVEL", section: "log", name: "level" },
  { variable: "LOOPHUB_LOG_FORMAT", section: "log", name: "format" },
];

/** Variables with a key of the hub itself; configuration only sees to it that their values are never logged. */
export const SECRET_VARIABLES: readonly string[] = ["LOOPHUB_MASTER_KEY"];

/** A configuration with the environment's word put over the file's. */
export interface Overridden {
  value: JsonObject;
  /** The variable that overrode a setting, by the setting's formatted path. */
  variables: ReadonlyMap<string, string>;
}

/**
 * Puts the variables of `OVERRIDES` that are set and not empty over a configuration. A relative `LOOPHUB_DATA_DIR`
 * is in the caller's folder `cwd`, not in the file's.
 */
export function overrideFromEnvironment(
  value: JsonObject,
  { env, cwd }: { env: (name: string) => string | undefined; cwd: string },
): Overridden {
  const out = { ...value };
  const variables = new Map<string, string>();
  for (const { variable, section, name } of OVERRIDES) {
    const found = env(variable);
    if (found === undefined || found === "") continue;
    const members = out[section] ?? {};
    // A section that is no object is a mistake of the file, and reported as one.
    if (!isJsonObject(members)) continue;
    out[section] = { ...members, [name]: name === "dataDir" ? resolve(cwd, found) : found };
    variables.set(formatPath([section, name]), variable);
  }
  return { value: out, variables };
}
