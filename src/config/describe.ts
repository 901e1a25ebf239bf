import { resolve } from "node:path";
import type { PublicModel } from "./agent_schema.ts";
import { listedModels } from "./model_name.ts";
import { DEFAULT_DATA_DIR, type LoadedConfig, type ResolvedConfig } from "./load.ts";

/**
 * What a hub with this configuration would start, one line a thing, for `loophub check`: `name  what`. Keys and
 * passwords are never in it. `further` is what only a look at the system tells.
 */
export function describeConfig(
  loaded: LoadedConfig,
  further: readonly [string, string][] = [],
): string[] {
  const { config, source, notes } = loaded;
  const rows: [string, string][] = [
    ["file", source ?? "none, defaults and the environment"],
    ["address", `http://${bracket(config.server.host)}:${config.server.port}`],
    ["database", describeDatabase(loaded)],
    ["log", `${config.log.level}, ${config.log.format}`],
    ...describeProviders(loaded),
    ...describeModels(config),
    ["default model", config.defaultModel],
    ...Object.entries(config.agents).map(describeAgent),
    ...config.operations.modules.map((path): [string, string] => ["operations", path]),
    ...further,
    ...notes.map((note): [string, string] => ["note", note]),
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, what]) => `${name.padEnd(width)}  ${what}`);
}

/** A database URL that may be shown: its password, wherever it stands, is replaced by stars. */
export function hidePassword(url: string): string {
  if (!URL.canParse(url)) return "(a URL that cannot be read)";
  const parsed = new URL(url);
  if (parsed.password !== "") parsed.password = "***";
  for (const name of [...parsed.searchParams.keys()]) {
    if (/password|secret|token|key/i.test(name)) parsed.searchParams.set(name, "***");
  }
  return parsed.href;
}

function describeDatabase({ config: { database }, folder }: LoadedConfig): string {
  if (database.url !== undefined) return hidePassword(database.url);
  return `embedded Postgres in ${database.dataDir ?? resolve(folder, DEFAULT_DATA_DIR)}`;
}

function describeProviders({ config, keySources }: LoadedConfig): [string, string][] {
  return Object.entries(config.providers).map(([name, provider]) => {
    const listed = listedModels(provider);
    const facts = [
      provider.kind,
      ...(provider.baseUrl === undefined ? [] : [provider.baseUrl]),
      ...(provider.kind === "demo" ? ["needs no key"] : [describeKey(keySources[name])]),
      listed === null ? `any model as ${name}/MODEL` : `models ${listed.join(", ")}`,
    ];
    return ["provider", `${name}: ${facts.join("; ")}`];
  });
}

function describeKey(source: string | undefined): string {
  return source === undefined ? "no key" : `key from ${source}`;
}

function describeModels({ models }: ResolvedConfig): [string, string][] {
  return Object.entries(models).map(([name, model]) =>
    typeof model === "string"
      ? ["model", `${name}: the same as ${model}`]
      : ["model", `${name}: ${describeRouting(model)}`]
  );
}

function describeRouting(model: Exclude<PublicModel, string>): string {
  const { targets, strategy = "order", hedge, rules = [], fallbacks = [] } = model;
  return [
    strategy === "order" ? targets.join(", then ") : `by ${strategy} of ${targets.join(", ")}`,
    ...(hedge === undefined ? [] : ["hedged"]),
    ...(rules.length === 0 ? [] : [`${rules.length} ${rules.length === 1 ? "rule" : "rules"}`]),
    ...(fallbacks.length === 0 ? [] : [`falls back to ${fallbacks.join(", then ")}`]),
  ].join("; ");
}

function describeAgent(
  [name, agent]: [string, ResolvedConfig["agents"][string]],
): [string, string] {
  const tools = agent.tools.length === 0 ? "no tools" : `tools ${agent.tools.join(", ")}`;
  const prompt = agent.systemPromptFile ?? (agent.systemPrompt === undefined ? null : "its own");
  const facts = [
    `models ${agent.models.join(", then ")}`,
    tools,
    `at most ${agent.maxSteps} steps`,
    ...(prompt === null ? [] : [`prompt ${prompt}`]),
  ];
  return ["agent", `${name}: ${facts.join("; ")}`];
}

function bracket(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
