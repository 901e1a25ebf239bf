import { MAX_MODEL_NAME_LENGTH, MAX_PROVIDER_NAME_LENGTH } from "../core/limits.ts";
import type { Config } from "./schema.ts";
import type { Provider } from "./provider_schema.ts";

/** The two halves of `provider/model`; the model may hold further slashes. */
export interface TargetName {
  provider: string;
  model: string;
}

/** Splits `provider/model` at the first slash; null when either half would be empty. */
export function splitTargetName(name: string): TargetName | null {
  const slash = name.indexOf("/");
  if (slash < 1 || slash === name.length - 1) return null;
  return { provider: name.slice(0, slash), model: name.slice(slash + 1) };
}

/** What names of agents begin with where they stand for models. No provider and no public model may be called so. */
export const AGENT_MODELS = "agent";

/** The agent that a name of a model stands for; null for any other name. */
export function agentOfModel(name: string): string | null {
  const agent = name.startsWith(`${AGENT_MODELS}/`) ? name.slice(AGENT_MODELS.length + 1) : "";
  return agent === "" ? null : agent;
}

/** The agent as the name of a model. */
export function modelOfAgent(agent: string): string {
  return `${AGENT_MODELS}/${agent}`;
}

/** True for what may be the name of a model in a request: bounded, well-formed Unicode without control characters. */
export function isModelName(name: string): boolean {
  const longest = MAX_PROVIDER_NAME_LENGTH + 1 + MAX_MODEL_NAME_LENGTH;
  if (name === "" || name.length > longest) return false;
  const { model } = splitTargetName(name) ?? { model: name };
  return model.length <= MAX_MODEL_NAME_LENGTH && name.isWellFormed() && !/\p{Cc}/u.test(name);
}

/** The models that a provider lists, in order; null when it lists none and any name passes. */
export function listedModels(provider: Provider): readonly string[] | null {
  if (provider.models === undefined) return null;
  return Array.isArray(provider.models) ? provider.models : Object.keys(provider.models);
}

/** Every model that can be called by name: public ones first, then `provider/model` of providers that list theirs. */
export function listModelNames(config: Pick<Config, "models" | "providers">): string[] {
  const targets = Object.entries(config.providers).flatMap(([name, provider]) =>
    (listedModels(provider) ?? []).map((model) => `${name}/${model}`)
  );
  return [...new Set([...Object.keys(config.models), ...targets])];
}
