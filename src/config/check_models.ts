import type { PublicModel } from "./agent_schema.ts";
import type { ConfigPath } from "./config_path.ts";
import { quoteGot } from "./describe_got.ts";
import { listedModels, listModelNames, splitTargetName } from "./model_name.ts";
import { didYouMean } from "./nearest_name.ts";
import type { ProblemList } from "./problem.ts";
import type { Config } from "./schema.ts";

/** The part of a configuration that gives names of models their meaning. */
export type ModelNames = Pick<Config, "models" | "providers">;

const MOST_NAMED = 12;

/** Checks that targets name configured providers, and that aliases lead somewhere and not in a circle. */
export function checkPublicModels(names: ModelNames, problems: ProblemList): void {
  for (const [name, model] of Object.entries(names.models)) {
    if (typeof model === "string") {
      checkModelName(model, { names, problems, path: ["models", name] });
      continue;
    }
    checkTargets(model.targets, { names, problems, path: ["models", name, "targets"] });
    checkRouting(name, model, { names, problems });
  }
  checkAliasCycles(names.models, problems);
}

function checkTargets(
  targets: readonly string[],
  { names, problems, path }: { names: ModelNames; problems: ProblemList; path: ConfigPath },
): void {
  for (const [index, target] of targets.entries()) {
    const mistake = describeWrongTarget(target, names);
    if (mistake !== null) problems.add([...path, index], mistake);
  }
}

/** Checks that rules, weights and fallbacks name what there is. */
function checkRouting(
  name: string,
  model: Exclude<PublicModel, string>,
  { names, problems }: { names: ModelNames; problems: ProblemList },
): void {
  const { targets, weights = {}, rules = [], fallbacks = [] } = model;
  for (const [index, rule] of rules.entries()) {
    const path = ["models", name, "rules", index, "targets"];
    checkTargets(rule.targets, { names, problems, path });
  }
  const all = [...targets, ...rules.flatMap((rule) => rule.targets)];
  for (const target of Object.keys(weights)) {
    if (all.includes(target)) continue;
    problems.add(["models", name, "weights", target], {
      got: "a weight of no target",
      wanted: `one of the model's targets${nameSome(all)}${didYouMean(target, all)}`,
    });
  }
  for (const [index, other] of fallbacks.entries()) {
    if (other !== name && Object.hasOwn(names.models, other)) continue;
    const known = Object.keys(names.models).filter((known) => known !== name);
    problems.add(["models", name, "fallbacks", index], {
      got: quoteGot(other),
      wanted: `another public model${nameSome(known)}${didYouMean(other, known)}`,
    });
  }
}

/** Checks that a name is a public model or a `provider/model` that can be called. */
export function checkModelName(
  name: string,
  { names, problems, path }: { names: ModelNames; problems: ProblemList; path: ConfigPath },
): void {
  // A public model that is wrong by itself is reported where it stands.
  if (Object.hasOwn(names.models, name) || problems.hasWithin(["models", name])) return;
  if (splitTargetName(name) === null) {
    const known = listModelNames(names);
    problems.add(path, {
      got: quoteGot(name),
      wanted: `a public model${nameSome(Object.keys(names.models))} or provider/model${
        didYouMean(name, known)
      }`,
    });
    return;
  }
  const mistake = describeWrongTarget(name, names);
  if (mistake !== null) problems.add(path, mistake);
}

function describeWrongTarget(
  target: string,
  { providers }: ModelNames,
): { got: string; wanted: string } | null {
  const got = quoteGot(target);
  const split = splitTargetName(target);
  const known = Object.keys(providers);
  if (split === null) return { got, wanted: `provider/model${nameSome(known)}` };
  if (!Object.hasOwn(providers, split.provider)) {
    return {
      got,
      wanted: `provider/model with a configured provider${nameSome(known)}${
        didYouMean(split.provider, known)
      }`,
    };
  }
  const provider = providers[split.provider];
  const listed = provider === undefined ? null : listedModels(provider);
  if (listed === null || listed.includes(split.model)) return null;
  return {
    got,
    wanted: `a model that providers.${split.provider}.models lists${nameSome(listed)}${
      didYouMean(split.model, listed)
    }`,
  };
}

function nameSome(names: readonly string[]): string {
  if (names.length === 0) return "";
  const rest = names.length > MOST_NAMED ? ", …" : "";
  return ` (${names.slice(0, MOST_NAMED).join(", ")}${rest})`;
}

/** Each circle is reported once, at the alias that the file names first. */
function checkAliasCycles(models: Config["models"], problems: ProblemList): void {
  const reported = new Set<string>();
  for (const start of Object.keys(models)) {
    const trail: string[] = [];
    let at: string | undefined = start;
    while (at !== undefined && !trail.includes(at)) {
      trail.push(at);
      const next: Config["models"][string] | undefined = Object.hasOwn(models, at)
        ? models[at]
        : undefined;
      at = typeof next === "string" ? next : undefined;
    }
    if (at !== start || reported.has(start)) continue;
    for (const name of trail) reported.add(name);
    problems.add(["models", start], {
      got: `an alias that leads back to itself (${[...trail, start].join(" -> ")})`,
      wanted: "an alias that ends at a model with targets",
    });
  }
}
