import type { LoadedProvider } from "./complete_providers.ts";
import { findKnownProvider } from "./known_providers.ts";
import { listedModels } from "./model_name.ts";
import type { Config } from "./schema.ts";

/**
 * The model of agents that name none: the configured one, else the first public model, else the first model of the
 * first provider that lists one or is known well enough to have one, else what the default agent calls. Null when
 * nothing tells.
 */
export function chooseDefaultModel(
  { defaultModel, models, agents, providers }: Pick<Config, "models" | "agents"> & {
    defaultModel: string | undefined;
    providers: Record<string, LoadedProvider>;
  },
): string | null {
  if (defaultModel !== undefined) return defaultModel;
  const [first] = Object.keys(models);
  if (first !== undefined) return first;
  for (const [name, provider] of Object.entries(providers)) {
    const model = firstModel(provider);
    if (model !== undefined) return `${name}/${model}`;
  }
  return agents.default?.models[0] ?? null;
}

function firstModel(provider: LoadedProvider): string | undefined {
  const listed = listedModels(provider);
  // Of the two demo models this one shows the whole loop.
  if (provider.kind === "demo" && listed?.includes("tools") === true) return "tools";
  if (listed !== null) return listed[0];
  const row = findKnownProvider(provider.kind);
  // Behind another address the vendor's model need not exist.
  return row?.baseUrl === provider.baseUrl ? row?.defaultModel : undefined;
}
