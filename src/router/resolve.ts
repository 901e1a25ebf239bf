import type { PublicModel } from "../config/agent_schema.ts";
import type { ResolvedConfig } from "../config/load.ts";
import { agentOfModel, isModelName, listModelNames } from "../config/model_name.ts";
import { didYouMean } from "../config/nearest_name.ts";
import { BoundedMap } from "../core/bounded_map.ts";
import { HubError } from "../core/error.ts";
import { MAX_KNOWN_NAMES, MAX_MODEL_NAME_LENGTH } from "../core/limits.ts";
import type { FindTarget } from "../providers/create_targets.ts";
import { createRoute, createTier, type Route } from "./route.ts";

type Model = Exclude<PublicModel, string>;

/**
 * Turns a public model name, an alias or a `provider/model` name into the way to its targets. Throws
 * `model_not_found`, or `invalid_request` for what can be no name.
 */
export type ResolveModel = (name: string) => Route;

/** A model as `/v1/models` lists it. */
export interface ListedModel {
  id: string;
  ownedBy: string;
}

/** Makes the resolver over the configured models. Answers are kept, since the configuration does not change. */
export function createResolver(config: ResolvedConfig, findTarget: FindTarget): ResolveModel {
  const known = new BoundedMap<string, Route>(MAX_KNOWN_NAMES);
  /** The model behind a name, through aliases; null when it is no public one. */
  const find = (name: string, trail: readonly string[]): { name: string; model: Model | null } => {
    const model = config.models[name];
    if (typeof model !== "string") return { name, model: model ?? null };
    return trail.includes(model) ? { name: model, model: null } : find(model, [...trail, name]);
  };
  const resolve = (wanted: string): Route => {
    const { name, model } = find(wanted, []);
    if (model === null) return [findTarget(name)].filter((target) => target !== null);
    // What a fallback itself falls back to is not followed, so that there is no circle.
    const fallbacks = (model.fallbacks ?? []).map((other) => find(other, []).model);
    const models = [model, ...fallbacks].filter((model) => model !== null);
    return createRoute(models.map((model) => createTier(model, findTarget)));
  };
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    if (!isModelName(name)) {
      throw new HubError(
        "invalid_request",
        `model must be a name of 1 to ${MAX_MODEL_NAME_LENGTH} characters without control characters`,
        { param: "model" },
      );
    }
    const targets = resolve(name);
    if (targets.length === 0) {
      const hint = agentOfModel(name) === null
        ? didYouMean(name, listModelNames(config))
        : "; agents answer at /v1/chat/completions alone";
      throw modelNotFound(name, hint);
    }
    known.set(name, targets);
    return targets;
  };
}

/** The error for a name that means nothing here, or nothing to who asks; `hint` may name others. */
export function modelNotFound(name: string, hint = ""): HubError {
  return new HubError(
    "model_not_found",
    `The model ${JSON.stringify(name.slice(0, 100))} does not exist here: names are those of ` +
      `/v1/models, or a configured provider, a slash and the provider's own name${hint}`,
    { param: "model" },
  );
}

/** Everything that can be called by name, for `/v1/models`. */
export function listModels(config: ResolvedConfig): ListedModel[] {
  return listModelNames(config).map((id) => ({
    id,
    ownedBy: id in config.models ? "loophub" : id.slice(0, id.indexOf("/")),
  }));
}
