import { BoundedMap } from "../core/bounded_map.ts";
import type { Clock } from "../core/clock.ts";
import { MAX_KNOWN_NAMES } from "../core/limits.ts";

interface Health {
  failures: number[];
  openUntilMs: number;
  probing: boolean;
}

const WINDOW_MS = 10_000;
const FAILURES_TO_OPEN = 5;
const OPEN_MS = 5_000;
const RETRIES_PER_SECOND = 3;
const RETRIES_PER_REQUEST = 0.1;
const RETRY_BURST = 30;

/**
 * What recent attempts say about targets, and about keys. Five failures in ten seconds rest a target for five, then one probe decides.
 * Retries on a provider are limited to a tenth of its requests and three a second, so that none becomes a storm.
 * Only the targets that failed last are remembered, since clients name them.
 */
export class TargetHealth {
  readonly #clock: Clock;
  readonly #onRest: (id: string) => void;
  readonly #targets = new BoundedMap<string, Health>(MAX_KNOWN_NAMES);
  readonly #budgets = new Map<string, { tokens: number; atMs: number }>();

  /** `onRest` is told of each target and key that is sent to rest. */
  constructor(clock: Clock, onRest: (id: string) => void = () => {}) {
    this.#clock = clock;
    this.#onRest = onRest;
  }

  /** What rests now, or waits for its probe. */
  *states(): Generator<[id: string, state: "open" | "half_open"]> {
    const now = this.#clock.coarse();
    for (const [id, { openUntilMs }] of this.#targets.entries()) {
      if (openUntilMs > 0) yield [id, now < openUntilMs ? "open" : "half_open"];
    }
  }

  /** False while the target rests; the first asker after its rest is the probe. */
  allows(targetId: string): boolean {
    return this.ask(targetId) !== "rests";
  }

  /** Whether the target may be tried; `probe` is given to one asker, which must then say how it went. */
  ask(targetId: string): "open" | "probe" | "rests" {
    const health = this.#targets.get(targetId);
    if (health === undefined || health.openUntilMs === 0) return "open";
    if (this.#rests(health)) return "rests";
    health.probing = true;
    return "probe";
  }

  /** True when nobody may try the target now. */
  rests(targetId: string): boolean {
    const health = this.#targets.get(targetId);
    return health !== undefined && health.openUntilMs > 0 && this.#rests(health);
  }

  /** The end of the target's rest, in monotonic milliseconds; 0 when it does not rest. A probe does not end it. */
  restsUntil(targetId: string): number {
    return this.#targets.get(targetId)?.openUntilMs ?? 0;
  }

  succeeded(targetId: string): void {
    this.#targets.delete(targetId);
  }

  /** `ofProbe` tells the probe's own failure from one of an attempt that began before it; by default it is the probe's. */
  failed(targetId: string, ofProbe = true): void {
    const now = this.#clock.coarse();
    const health = this.#known(targetId);
    health.failures = [...health.failures.filter((at) => at > now - WINDOW_MS), now];
    const probed = ofProbe && health.probing;
    if (probed || health.failures.length >= FAILURES_TO_OPEN) {
      this.#restUntil(targetId, health, now + OPEN_MS);
    }
    if (probed) health.probing = false;
    this.#targets.set(targetId, health);
  }

  /** The target said itself for how long it wants no requests; a rest that ends later stays. */
  rest(targetId: string, forMs: number, ofProbe = true): void {
    const health = this.#known(targetId);
    this.#restUntil(targetId, health, this.#clock.coarse() + forMs);
    if (ofProbe) health.probing = false;
    this.#targets.set(targetId, health);
  }

  /** The probe ended without a verdict (the client left): the next asker may probe. */
  released(targetId: string): void {
    const health = this.#targets.get(targetId);
    if (health !== undefined) health.probing = false;
  }

  /** Counts a request of the provider; its retries are paid from this. */
  requested(provider: string): void {
    const budget = this.#budget(provider);
    budget.tokens = Math.min(RETRY_BURST, budget.tokens + RETRIES_PER_REQUEST);
  }

  /** True, and counted, when the provider's retry budget has one left. */
  mayRetry(provider: string): boolean {
    const budget = this.#budget(provider);
    if (budget.tokens < 1) return false;
    budget.tokens--;
    return true;
  }

  #restUntil(id: string, health: Health, untilMs: number): void {
    if (health.openUntilMs <= this.#clock.coarse()) this.#onRest(id);
    health.openUntilMs = Math.max(health.openUntilMs, untilMs);
  }

  #rests({ probing, openUntilMs }: Health): boolean {
    return probing || this.#clock.coarse() < openUntilMs;
  }

  #known(targetId: string): Health {
    return this.#targets.get(targetId) ?? { failures: [], openUntilMs: 0, probing: false };
  }

  #budget(provider: string): { tokens: number; atMs: number } {
    const now = this.#clock.coarse();
    const budget = this.#budgets.get(provider) ?? { tokens: RETRY_BURST, atMs: now };
    const earned = (now - budget.atMs) / 1000 * RETRIES_PER_SECOND;
    budget.tokens = Math.min(RETRY_BURST, budget.tokens + earned);
    budget.atMs = now;
    this.#budgets.set(provider, budget);
    return budget;
  }
}
