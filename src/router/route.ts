import type { PublicModel } from "../config/agent_schema.ts";
import type { Hedge, RuleCondition, Strategy } from "../config/routing_schema.ts";
import type { Target } from "../providers/target.ts";
import { HedgeBudget } from "./hedge_budget.ts";

/** Targets to choose from, with their weights in the same order. */
export interface Choice {
  targets: readonly Target[];
  weights: readonly number[];
}

/** When a second target may be asked: after a time, or when the first is slower than it mostly was (null). */
export interface HedgePlan {
  afterMs: number | null;
  budget: HedgeBudget;
}

/** One public model of a route: its targets, and how the first of them is chosen. */
export interface Tier {
  choice: Choice;
  strategy: Strategy;
  affinity: boolean;
  hedge: HedgePlan | null;
  /** The first that fits a request gives its choice. */
  rules: readonly { when: RuleCondition; choice: Choice }[];
}

/**
 * All targets that may answer to a name, in order of failover. `tiers` is there when the order depends on the request:
 * first the targets of the first model, then those of the next.
 */
export interface Route extends ReadonlyArray<Target> {
  readonly tiers?: readonly Tier[];
}

const DEFAULT_HEDGE_PERCENT = 5;

/** The tier of a public model. `find` gives the target of a name, null for one that is gone. */
export function createTier(
  model: Exclude<PublicModel, string>,
  find: (name: string) => Target | null,
): Tier {
  const { strategy = "order", affinity = true, hedge, rules = [], weights = {} } = model;
  const choose = (names: readonly string[]): Choice => {
    const targets = names.map(find).filter((target) => target !== null);
    return { targets, weights: targets.map(({ id }) => weights[id] ?? 1) };
  };
  return {
    choice: choose(model.targets),
    strategy,
    affinity,
    hedge: hedge === undefined ? null : createHedge(hedge),
    rules: rules.map(({ when, targets }) => ({ when, choice: choose(targets) })),
  };
}

/** Joins models to one route: first all targets of the first, then those of the next. */
export function createRoute(tiers: readonly Tier[]): Route {
  const all = new Set(tiers.flatMap(allTargets));
  const plain = tiers.every(({ strategy, hedge, rules }) =>
    strategy === "order" && hedge === null && rules.length === 0
  );
  return plain ? [...all] : Object.assign([...all], { tiers });
}

/** Joins routes to one, each behind the other. */
export function joinRoutes(routes: readonly Route[]): Route {
  const [first] = routes;
  if (first !== undefined && routes.length === 1) return first;
  return createRoute(routes.flatMap((route) => route.tiers ?? [plainTier(route)]));
}

/** A tier whose targets are tried in order. */
function plainTier(targets: readonly Target[]): Tier {
  const weights = targets.map(() => 1);
  const choice = { targets, weights };
  return { choice, strategy: "order", affinity: true, hedge: null, rules: [] };
}

function allTargets({ choice, rules }: Tier): Target[] {
  return [...choice.targets, ...rules.flatMap((rule) => rule.choice.targets)];
}

function createHedge({ afterMs, maxPercent = DEFAULT_HEDGE_PERCENT }: Hedge): HedgePlan {
  return { afterMs: afterMs ?? null, budget: new HedgeBudget(maxPercent / 100) };
}
