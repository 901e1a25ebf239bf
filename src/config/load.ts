import { dirname, resolve } from "node:path";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { checkAddresses } from "./check_addresses.ts";
import { checkModelName, checkPublicModels } from "./check_models.ts";
import { checkSchema } from "./check_schema.ts";
import { collectSecrets } from "./collect_secrets.ts";
import { completeAgents } from "./complete_agents.ts";
import {
  type CompletedProviders,
  completeProviders,
  type LoadedProvider,
} from "./complete_providers.ts";
import { completeWorkspaces } from "./complete_workspaces.ts";
import { completeMcpServers, type LoadedMcpServer } from "./complete_mcp_servers.ts";
import { formatPath } from "./config_path.ts";
import { chooseDefaultModel } from "./default_model.ts";
import { describeGot } from "./describe_got.ts";
import { demoInstead, type DetectedProviders, detectProviders } from "./detect_providers.ts";
import { adoptMcpServers } from "./mcp_clients/adopt_servers.ts";
import { overrideFromEnvironment } from "./environment.ts";
import { expandVariables, hideVariables, type Reference } from "./expand.ts";
import { describeReadError, findConfigFile, type FindFileOptions } from "./find_file.ts";
import { freezeConfig } from "./freeze.ts";
import { OLLAMA_ORIGIN } from "./known_providers.ts";
import { parseJsonc } from "./parse_jsonc.ts";
import type { OllamaTags, ProbeOllama } from "./probe_ollama.ts";
import { createProblemList, invalidConfiguration, type ProblemList } from "./problem.ts";
import { Config } from "./schema.ts";
import { toSchemaNode } from "./schema_node.ts";

/** Folder of the embedded Postgres when the configuration names none, below that of the file. */
export const DEFAULT_DATA_DIR = ".loophub";

/** A configuration with nothing left to decide. Prompt files are read, paths are absolute, `agents.default` is there. */
export type ResolvedConfig = Omit<Config, "providers" | "defaultModel" | "mcpServers"> & {
  providers: Record<string, LoadedProvider>;
  mcpServers: Record<string, LoadedMcpServer>;
  defaultModel: string;
};

/** A configuration, where it came from, and what must not be told of it. Frozen to its depths. */
export interface LoadedConfig {
  config: ResolvedConfig;
  /** Absolute path of the file; null when there was none. */
  source: string | null;
  /** Base of relative paths: the folder of the file, or the working directory. */
  folder: string;
  /** Values that no log may show. */
  secrets: readonly string[];
  /** What was found without being configured, and what is missing, one sentence each. */
  notes: readonly string[];
  /** Where the key of a provider came from: the variables it was made of, or `the file`. */
  keySources: Readonly<Record<string, string>>;
}

/** Everything that loading touches. */
export interface LoadOptions extends FindFileOptions {
  /** Looks for a local Ollama; left out, nobody looks. */
  probe?: ProbeOllama;
}

/**
 * Finds, reads, expands, completes and checks the configuration. Without a `providers` section, providers are found
 * by the environment. Throws `invalid_configuration` that names every mistake at once, also in `details.problems`
 * as `{path, got, wanted}`; only violations of JSON itself are reported alone, since nothing can be read past them.
 */
export async function loadConfig(options: LoadOptions): Promise<LoadedConfig> {
  const { env, cwd, readText } = options;
  const file = await findConfigFile(options);
  const source = file?.path ?? null;
  const folder = file === null ? cwd : dirname(file.path);
  const parsed = parseJsonc(file?.text ?? "{}");
  if (parsed.syntaxProblems.length > 0) throw invalidConfiguration(source, parsed.syntaxProblems);
  if (!isJsonObject(parsed.value)) throw notAnObject(source, parsed.value);
  const detecting = !Object.hasOwn(parsed.value, "providers");

  const overridden = overrideFromEnvironment(parsed.value, { env, cwd });
  const problems = createProblemList({
    lineOf: parsed.lineOf,
    variableOf: (path) => overridden.variables.get(formatPath(path)),
  });
  problems.take(parsed.problems);
  const { value, references } = expandVariables(overridden.value, {
    env,
    problems,
    overridden: overridden.variables,
  });
  const detected = detecting
    ? detectProviders(env, await probeQuietly(options.probe))
    : demoInstead();
  const { settings: whole, notes } = addMissing(value, detected);
  const adopted = adoptMcpServers(whole);

  const checked = checkSchema(toSchemaNode(Config), adopted.settings, {
    problems,
    references,
  }) as Config;
  const completed = completeProviders(checked.providers, { env, problems });
  const names = { models: checked.models, providers: completed.providers };
  checkAddresses(checked, problems);
  checkPublicModels(names, problems);
  if (checked.defaultModel !== undefined) {
    checkModelName(checked.defaultModel, { names, problems, path: ["defaultModel"] });
  }
  const defaultModel = chooseDefaultModel({
    ...checked,
    ...names,
    defaultModel: checked.defaultModel,
  });
  if (defaultModel === null) reportNoDefaultModel(completed.providers, problems);
  const agents = await completeAgents(checked.agents, {
    names,
    defaultModel,
    folder,
    readText,
    problems,
  });
  const mcpServers = completeMcpServers(checked.mcpServers, { folder, problems });
  const modules = checked.operations.modules.map((path) => resolve(folder, path));
  await checkModules(modules, { readText, problems });
  const { dataDir = DEFAULT_DATA_DIR, usageDir } = checked.database;
  const skills = checked.skills === undefined ? null : resolve(folder, checked.skills.dir);
  const own = { folder, source, dataDir, modules, skills, problems };
  const workspaces = completeWorkspaces(checked.workspace, agents, own);

  if (problems.all.length > 0 || defaultModel === null) {
    throw invalidConfiguration(
      source,
      problems.all.map((problem) => ({
        ...problem,
        got: hideVariables(problem.got, references.values()),
        wanted: hideVariables(problem.wanted, references.values()),
      })),
    );
  }
  return freezeConfig<LoadedConfig>({
    config: {
      ...checked,
      database: {
        ...checked.database,
        ...(checked.database.dataDir === undefined ? {} : { dataDir: resolve(folder, dataDir) }),
        ...(usageDir === undefined ? {} : { usageDir: resolve(folder, usageDir) }),
      },
      providers: completed.providers,
      defaultModel,
      ...workspaces,
      operations: { modules },
      ...(skills === null ? {} : { skills: { dir: skills } }),
      mcpServers,
    },
    source,
    folder,
    secrets: collectSecrets({ ...checked, providers: completed.providers }, { references, env }),
    notes: [...notes, ...completed.notes, ...adopted.notes],
    keySources: describeKeySources(completed, references),
  });
}

/** Providers that were found, and the agent that is always there, as if the file had them. */
function addMissing(
  value: Json,
  detected: DetectedProviders,
): { settings: JsonObject; notes: string[] } {
  const settings = isJsonObject(value) ? { ...value } : {};
  const providers = settings.providers ?? {};
  const agents = settings.agents ?? {};
  const detecting = isJsonObject(providers) && Object.keys(providers).length === 0 &&
    settings.providers !== null;
  if (detecting) settings.providers = detected.providers;
  if (isJsonObject(agents) && !Object.hasOwn(agents, "default") && settings.agents !== null) {
    settings.agents = {
      ...agents,
      default: { description: "Answers with the help of every tool of the hub." },
    };
  }
  return { settings, notes: detecting ? detected.notes : [] };
}

function describeKeySources(
  { providers, keyVariables }: CompletedProviders,
  references: ReadonlyMap<string, Reference>,
): Record<string, string> {
  const sources: Record<string, string> = {};
  for (const [name, { apiKey, apiKeys }] of Object.entries(providers)) {
    if (apiKey === undefined && apiKeys === undefined) continue;
    const path = ["providers", name];
    const paths = apiKeys?.map((_, index) => [...path, "apiKeys", index]) ?? [[...path, "apiKey"]];
    const written = paths.flatMap((path) => references.get(formatPath(path))?.variables ?? []);
    const variables = keyVariables.get(name) ?? written.join(", ");
    sources[name] = variables === "" ? "the file" : variables;
  }
  return sources;
}

/** A probe must never stop the hub from starting. */
async function probeQuietly(probe: ProbeOllama | undefined): Promise<OllamaTags | null> {
  try {
    return await probe?.(OLLAMA_ORIGIN) ?? null;
  } catch {
    return null;
  }
}

async function checkModules(
  modules: string[],
  { readText, problems }: Pick<LoadOptions, "readText"> & { problems: ProblemList },
): Promise<void> {
  await Promise.all(modules.map(async (path, index) => {
    const place = ["operations", "modules", index];
    const wanted = "a readable module";
    try {
      if (await readText(path) === null) problems.add(place, { got: `no file at ${path}`, wanted });
    } catch (error) {
      const got = `a file that cannot be read (${describeReadError(error)})`;
      problems.add(place, { got, wanted });
    }
  }));
}

function reportNoDefaultModel(providers: Record<string, LoadedProvider>, problems: ProblemList) {
  const [name = "provider"] = Object.keys(providers);
  // When a provider or a model is wrong already, mending it may give a default.
  if (["providers", "models", "defaultModel"].some((name) => problems.hasWithin([name]))) return;
  problems.add(["defaultModel"], {
    got: "nothing",
    wanted:
      `a model for agents that name none, such as "${name}/MODEL", as no provider lists its models`,
  });
}

function notAnObject(source: string | null, value: Json) {
  return invalidConfiguration(source, [{
    path: "(root)",
    got: describeGot(value, { secret: true, raw: null }),
    wanted: "an object",
  }]);
}
