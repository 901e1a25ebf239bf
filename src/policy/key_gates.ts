import type { ConcurrencyGate } from "../core/concurrency_gate.ts";

/** What makes the gates of keys. */
export interface KeyGatesOptions {
  /** Requests that a key may have under way; null for any number. */
  limitOf(keyId: string): number | null;
  create(keyId: string, max: number): ConcurrencyGate;
}

/** Gates past which those that stand empty are forgotten. */
const FIRST_SWEEP = 1000;

/** A gate for each key that is at work. */
export class KeyGates {
  readonly #options: KeyGatesOptions;
  readonly #gates = new Map<string, { gate: ConcurrencyGate; max: number }>();
  #sweepAt = FIRST_SWEEP;

  constructor(options: KeyGatesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#gates.size;
  }

  /** Null for a key without a limit. */
  gateOf(keyId: string): ConcurrencyGate | null {
    const max = this.#options.limitOf(keyId);
    if (max === null) return null;
    const known = this.#gates.get(keyId);
    // With another limit a new gate: who is inside leaves by the old one.
    if (known !== undefined && known.max === max) return known.gate;
    if (this.#gates.size >= this.#sweepAt) this.#sweep();
    const gate = this.#options.create(keyId, max);
    this.#gates.set(keyId, { gate, max });
    return gate;
  }

  #sweep(): void {
    for (const [keyId, { gate }] of this.#gates) {
      if (gate.isIdle) this.#gates.delete(keyId);
    }
    this.#sweepAt = Math.max(FIRST_SWEEP, this.#gates.size * 2);
  }
}
