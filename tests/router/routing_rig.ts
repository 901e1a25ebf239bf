import { Deadlines } from "../../src/core/deadlines.ts";
import type { Log } from "../../src/core/log.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import type { Target } from "../../src/providers/target.ts";
import { type Answer, type AnswerRequest, createOpenAnswer } from "../../src/router/open_answer.ts";
import { createRoute, createTier, type Route } from "../../src/router/route.ts";
import { TargetGates } from "../../src/router/target_gates.ts";
import { TargetHealth } from "../../src/router/target_health.ts";
import type { UsageFact } from "../../src/router/usage_fact.ts";
import type { PublicModel } from "../../src/config/agent_schema.ts";
import { CHAT } from "../../src/wire/openai_chat/chat_wire.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { createTestGate } from "../support/gates.ts";
import { testIds } from "../support/postgres.ts";

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

/** A router on a clock that stands still, with everything it accounts. */
export function createRoutingRig(
  { seed = 1, log = SILENT_LOG, max = 1_000_000, providers = ["p"], health }: {
    seed?: number;
    log?: Log;
    max?: number;
    providers?: readonly string[];
    health?: (clock: ReturnType<typeof createFakeClock>) => TargetHealth;
  } = {},
) {
  const clock = createFakeClock();
  const random = seeded(seed);
  const deadlines = new Deadlines(clock);
  const facts: UsageFact[] = [];
  const gateOf = () => createTestGate(clock, { max, deadlines });
  const gates = new Map(providers.map((name) => [name, gateOf()]));
  const targetHealth = health?.(clock) ?? new TargetHealth(clock);
  const openAnswer = createOpenAnswer({
    clock,
    random,
    log,
    redact: (text) => text,
    health: targetHealth,
    deadlines,
    gates: new TargetGates({ providers: gates, models: new Map() }),
    nextUsageId: () => testIds.next("usg"),
    recordUsage: (fact) => void facts.push(fact),
  });
  return {
    clock,
    random,
    facts,
    health: targetHealth,
    open: (targets: Route, more: Partial<AnswerRequest> = {}): Promise<Answer> =>
      openAnswer({
        targets,
        prepare: () => ({ wire: CHAT, body: new Uint8Array(2), hideUsage: false }),
        stream: false,
        signal: new AbortController().signal,
        facts: { requestId: "r", tenantId: "t", keyId: "k", kind: "proxy", publicModel: "m" },
        ...more,
      }),
    /** True when no place, deadline or timer is left. */
    isQuiet: () => [...gates.values()].every((gate) => gate.isIdle) && deadlines.size === 0,
  };
}

/** Reads an answer to its end. */
export async function finish(answer: Answer): Promise<void> {
  while (await answer.read()) { /* to the end */ }
}

/** A route as the configuration would make it. */
export function routeOf(
  targets: readonly Target[],
  model: Omit<Exclude<PublicModel, string>, "targets"> = {},
): Route {
  const find = (id: string) => targets.find((target) => target.id === id) ?? null;
  return createRoute([createTier({ targets: targets.map(({ id }) => id), ...model }, find)]);
}

/** The target with a pool of this many keys. */
export function withKeys(target: Target, count: number): Target {
  const lanes = Array.from({ length: count }, (_, index) => {
    const id = `${target.provider}#${index + 1}`;
    const key = { number: index + 1, id, atModel: `${target.id} ${id}` };
    return { ...target, key, fixedHeaders: [["authorization", `key-${index + 1}`]] as const };
  });
  return { ...target, lanes };
}
