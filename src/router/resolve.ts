import type { ResolvedConfig } from "../config/load.ts";
import { isModelName, listModelNames } from "../config/model_name.ts";
import { didYouMean } from "../config/nearest_name.ts";
import { BoundedMap } from "../core/bounded_map.ts";
import { HubError } from "../core/error.ts";
import { MAX_KNOWN_NAMES, MAX_MODEL_NAME_LENGTH } from "../core/limits.ts";
import type { FindTarget } from "../providers/create_targets.ts";
import type { Target } from "../providers/target.ts";

/**
 * Turns a public model name, an alias or a `provider/model` name into targets, first choice first. Throws
 * `model_not_found`, or `invalid_request` for what can be no name.
 */
export type ResolveModel = (name: string) => readonly Target[];

/** A model as `/v1/models` lists it. */
export interface ListedModel {
  id: string;
  ownedBy: string;
}

/** Makes the resolver over the configured models. Answers are kept, since the configuration does not change. */
export function createResolver(config: ResolvedConfig, findTarget: FindTarget): ResolveModel {
  const known = new BoundedMap<string, readonly Target[]>(MAX_KNOWN_NAMES);
  const resolve = (name: string, trail: readonly string[]): readonly Target[] => {
    const model = config.models[name];
    if (typeof model === "string" && !trail.includes(model)) {
      return resolve(model, [...trail, name]);
    }
    const targets = typeof model === "object" ? model.targets : [name];
    return targets.map(findTarget).filter((target) => target !== null);
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
    const targets = resolve(name, []);
    if (targets.length === 0) {
      throw new HubError(
        "model_not_found",
        `The model ${
          JSON.stringify(name.slice(0, 100))
        } does not exist here: names are those of /v1/models, ` +
          `or a configured provider, a slash and the provider's own name${
            didYouMean(name, listModelNames(config))
          }`,
        { param: "model" },
      );
    }
    known.set(name, targets);
    return targets;
  };
}

/** Everything that can be called by name, for `/v1/models`. */
export function listModels(config: ResolvedConfig): ListedModel[] {
  return listModelNames(config).map((id) => ({
    id,
    ownedBy: id in config.models ? "loophub" : id.slice(0, id.indexOf("/")),
  }));
}
