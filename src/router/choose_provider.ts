import type { ResolvedConfig } from "../config/load.ts";
import { HubError } from "../core/error.ts";
import type { Targets } from "../providers/create_targets.ts";
import type { Target } from "../providers/target.ts";
import type { Route } from "./route.ts";

/** How a request that names no model says where it goes. */
export const PROVIDER_HEADER = "x-loophub-provider";

/**
 * The provider that a request without a model goes to: the one that it names, else the only one of OpenAI's own kind, else
 * the only one that speaks OpenAI's API. Throws `invalid_request`.
 */
export type ChooseProvider = (asked: string | null) => Target;

/** Makes the choice over the configured providers. */
export function createChooseProvider(
  config: Pick<ResolvedConfig, "providers">,
  targets: Pick<Targets, "ofProvider">,
): ChooseProvider {
  const names = Object.keys(config.providers)
    .filter((name) => targets.ofProvider(name)?.endpoints.pass !== undefined);
  const own = names.filter((name) => config.providers[name]?.kind === "openai");
  const [only, ...others] = own.length > 0 ? own : names;
  return (asked) => {
    if (asked === null && (only === undefined || others.length > 0)) {
      throw refuse(
        only === undefined
          ? "No provider here speaks OpenAI's API, which this request needs"
          : `The request names no model and no provider: say with ${PROVIDER_HEADER} which of ${
            names.join(", ")
          } it is for`,
      );
    }
    const name = asked ?? only ?? "";
    const target = targets.ofProvider(name);
    if (target === null) {
      throw refuse(`There is no provider ${JSON.stringify(name.slice(0, 100))} here`);
    }
    assertPasses([target]);
    return target;
  };
}

/** The way to the targets that speak the rest of OpenAI's API. Throws `invalid_request` when there are none. */
export function assertPasses(targets: Route): Route {
  const able = targets.filter((target) => target.endpoints.pass !== undefined);
  // As it stands it may have an order of its own.
  if (able.length === targets.length) return targets;
  if (able.length > 0) return able;
  const names = [...new Set(targets.map(({ provider }) => provider))].join(", ");
  throw refuse(`${names} has no such endpoint: it does not speak OpenAI's API`);
}

function refuse(message: string): HubError {
  return new HubError("invalid_request", message, { param: PROVIDER_HEADER });
}
