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
 * What recent attempts say about targets. Five failures in ten seconds rest a target for five, then one probe decides.
 * Retries on a provider are limited to a tenth of its requests and three a second, so that none becomes a storm.
 * Only the targets that failed last are remembered, since clients name them.
 */
export class TargetHealth {
  readonly #clock: Clock;
  readonly #targets = new BoundedMap<string, Health>(MAX_KNOWN_NAMES);
  readonly #budgets = new Map<string, { tokens: number; atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** False while the target rests; the first asker after its rest is the probe. */
  allows(targetId: string): boolean {
    const health = this.#targets.get(targetId);
    if (health === undefined || health.openUntilMs === 0) return true;
    if (health.probing || this.#clock.coarse() < health.openUntilMs) return false;
    health.probing = true;
    return true;
  }

  succeeded(targetId: string): void {
    this.#targets.delete(targetId);
  }

  failed(targetId: string): void {
    const now = this.#clock.coarse();
    const health = this.#targets.get(targetId) ?? { failures: [], openUntilMs: 0, probing: false };
    health.failures = [...health.failures.filter((at) => at > now - WINDOW_MS), now];
    if (health.probing || health.failures.length >= FAILURES_TO_OPEN) {
      health.openUntilMs = Math.max(health.openUntilMs, now + OPEN_MS);
      health.probing = false;
    }
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
