import type { ResolvedConfig } from "../config/load.ts";
import { listModelNames } from "../config/model_name.ts";
import { didYouMean } from "../config/nearest_name.ts";
import { HubError } from "../core/error.ts";
import type { FindTarget } from "../providers/create_targets.ts";
import type { Target } from "../providers/target.ts";

/** Turns a public model name, an alias or a `provider/model` name into targets, first choice first. Throws `model_not_found`. */
export type ResolveModel = (name: string) => readonly Target[];

/** A model as `/v1/models` lists it. */
export interface ListedModel {
  id: string;
  ownedBy: string;
}

/** Makes the resolver over the configured models. Answers are kept, since the configuration does not change. */
export function createResolver(config: ResolvedConfig, findTarget: FindTarget): ResolveModel {
  const known = new Map<string, readonly Target[]>();
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
    const targets = isStorable(name) ? resolve(name, []) : [];
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
    if (known.size < 10_000) known.set(name, targets);
    return targets;
  };
}

/** False for a NUL or a lone surrogate: Postgres holds neither, so that a use of such a model could not be written down. */
function isStorable(name: string): boolean {
  return name.isWellFormed() && !name.includes("\0");
}

/** Everything that can be called by name, for `/v1/models`. */
export function listModels(config: ResolvedConfig): ListedModel[] {
  return listModelNames(config).map((id) => ({
    id,
    ownedBy: id in config.models ? "loophub" : id.slice(0, id.indexOf("/")),
  }));
}
