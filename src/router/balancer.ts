import type { Clock } from "../core/clock.ts";
import { drawFrom, drawnRank, hashText } from "../core/rendezvous.ts";
import type { Target } from "../providers/target.ts";
import type { Attempt } from "./attempt.ts";
import { FirstContentTimes } from "./first_content_times.ts";
import type { Choice, HedgePlan, Route, Tier } from "./route.ts";
import type { TargetGates } from "./target_gates.ts";

/** What of a request decides where it goes. */
export interface Routed {
  targets: Route;
  stream: boolean;
  /** Size of its body. */
  bytes?: number;
  /** Tags of the key it came with. */
  tags?: readonly string[];
  /** What it belongs to: requests with the same text stay on one target and one key. */
  affinity?: string | null;
  /** How many tries in mid-answer came before: each begins with another target. */
  turn?: number;
}

/** Where one request goes. */
export interface Plan {
  /** In order of failover. */
  targets: readonly Target[];
  /** The first model's rule for second tries; only its own targets, the first `ownCount`, are asked beside another. */
  hedge: HedgePlan | null;
  ownCount: number;
}

/** What the balancer needs. */
export interface BalancerOptions {
  clock: Clock;
  /** A number in [0, 1). */
  random: () => number;
  gates: TargetGates;
}

/** Decides in which order the targets of a request are tried, by what they have done and what is under way. */
export class Balancer {
  readonly #options: BalancerOptions;
  readonly #times: FirstContentTimes;
  #turn = 0;

  constructor(options: BalancerOptions) {
    this.#options = options;
    this.#times = new FirstContentTimes(options.clock);
  }

  /** The order for a request; null when it is that of its targets as they stand. */
  plan(request: Routed): Plan | null {
    const { targets: { tiers }, turn = 0 } = request;
    if (tiers === undefined) {
      return turn === 0
        ? null
        : { targets: rotated(request.targets, turn), hedge: null, ownCount: 0 };
    }
    const ordered: Target[] = [];
    let ownCount = 0;
    for (const tier of tiers) {
      for (const target of this.#ordered(tier, request)) {
        if (!ordered.includes(target)) ordered.push(target);
      }
      ownCount ||= ordered.length;
    }
    const hedge = tiers[0]?.hedge ?? null;
    hedge?.budget.earn();
    return { targets: rotated(ordered, turn), hedge, ownCount: turn === 0 ? ownCount : 0 };
  }

  /** The keys of a target in the order in which a request tries them. */
  lanes(lanes: readonly Target[], { affinity }: Routed): readonly Target[] {
    if (affinity === undefined || affinity === null) return rotated(lanes, this.#turn++);
    const key = hashText(affinity);
    return ranked(lanes, (lane) => drawnRank(drawFrom(key, hashText(lane.key?.id ?? "")), 1));
  }

  /** After this time without content the next target is asked too; null for never. */
  hedgeAfterMs({ afterMs }: HedgePlan, target: Target, stream: boolean): number | null {
    return afterMs ?? this.#times.highMs(target.id, stream);
  }

  /** Learns from an attempt whose place at its target has not been given back yet. */
  learn(attempt: Attempt, how: "answered" | "failed" | "givenUp"): void {
    const { target: { id }, stream, durationMs: ms } = attempt;
    this.#times[how](id, { ms, busy: Math.max(0, this.#options.gates.busy(id) - 1), stream });
  }

  #ordered(tier: Tier, request: Routed): readonly Target[] {
    const { targets, weights } = choiceFor(tier, request);
    const { affinity = null, stream } = request;
    const { gates, random } = this.#options;
    if (tier.strategy === "order" || targets.length < 2) return targets;
    const byWeight = tier.strategy === "weights";
    if (tier.affinity && affinity !== null) {
      const key = hashText(affinity);
      return ranked(targets, ({ id }, at) => {
        return drawnRank(drawFrom(key, hashText(id)), byWeight ? weights[at] ?? 1 : 1);
      });
    }
    if (byWeight) return ranked(targets, (_, at) => drawnRank(1 - random(), weights[at] ?? 1));
    if (tier.strategy === "busy") return ranked(targets, ({ id }) => gates.busy(id) + random());
    return ranked(targets, ({ id }) => {
      return this.#times.expectedMs(id, { busy: gates.busy(id), stream });
    });
  }
}

function choiceFor({ rules, choice }: Tier, request: Routed): Choice {
  for (const { when, choice } of rules) {
    const { tag, minBytes = 0, maxBytes = Infinity, stream = request.stream } = when;
    const { bytes = 0, tags } = request;
    if (bytes < minBytes || bytes > maxBytes || stream !== request.stream) continue;
    if (tag !== undefined && tags?.includes(tag) !== true) continue;
    return choice;
  }
  return choice;
}

/** Smallest rank first; equals stay in their order. */
function ranked(
  targets: readonly Target[],
  rank: (target: Target, index: number) => number,
): Target[] {
  const ranks = new Map(targets.map((target, index) => [target, rank(target, index)]));
  const of = (target: Target) => ranks.get(target) ?? 0;
  return targets.toSorted((a, b) => of(a) === of(b) ? 0 : of(a) - of(b));
}

function rotated(targets: readonly Target[], turn: number): readonly Target[] {
  const from = turn % targets.length;
  return from === 0 ? targets : [...targets.slice(from), ...targets.slice(0, from)];
}
