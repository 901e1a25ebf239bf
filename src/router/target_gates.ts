import type { AbortLike } from "../core/abort.ts";
import type { ConcurrencyGate } from "../core/concurrency_gate.ts";
import type { Target } from "../providers/target.ts";

/**
 * The places at targets: each call has one at its provider, and before that one at its model if that is limited.
 * Nobody who has a place at a provider waits for another.
 */
export class TargetGates {
  readonly #providers: ReadonlyMap<string, ConcurrencyGate>;
  readonly #models: ReadonlyMap<string, ConcurrencyGate>;
  readonly #busy = new Map<string, number>();

  /** Gates by provider, and by `provider/model`; what has none has no limit. */
  constructor(
    { providers, models }: {
      providers: ReadonlyMap<string, ConcurrencyGate>;
      models: ReadonlyMap<string, ConcurrencyGate>;
    },
  ) {
    this.#providers = providers;
    this.#models = models;
  }

  /** Calls under way at a target. */
  busy(targetId: string): number {
    return this.#busy.get(targetId) ?? 0;
  }

  /** Takes the places if they are free. */
  tryEnter(target: Target): boolean {
    const model = this.#models.get(target.id);
    if (model !== undefined && !model.hasRoom) return false;
    const provider = this.#providers.get(target.provider);
    if (provider !== undefined && !provider.tryEnter()) return false;
    model?.tryEnter();
    this.#count(target.id, 1);
    return true;
  }

  /** Resolves with the places, at once if they are free; rejects as `ConcurrencyGate.wait` does. */
  async enter(target: Target, signal: AbortLike): Promise<void> {
    const model = this.#models.get(target.id);
    const provider = this.#providers.get(target.provider);
    if (model !== undefined && !model.tryEnter()) await model.wait(signal);
    try {
      if (provider !== undefined && !provider.tryEnter()) await provider.wait(signal);
    } catch (error) {
      model?.leave();
      throw error;
    }
    this.#count(target.id, 1);
  }

  /** Gives the places back; once for each time they were had. */
  leave(target: Target): void {
    this.#count(target.id, -1);
    this.#providers.get(target.provider)?.leave();
    this.#models.get(target.id)?.leave();
  }

  #count(targetId: string, change: number): void {
    const count = this.busy(targetId) + change;
    if (count === 0) this.#busy.delete(targetId);
    else this.#busy.set(targetId, count);
  }
}
