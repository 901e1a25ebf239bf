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
  readonly #onIdle: (provider: string) => void;
  readonly #busy = new Map<string, number>();
  /** Those that have a place at their model and wait for one at its provider. */
  readonly #between = new Map<string, number>();

  /**
   * Gates by provider, and by `provider/model`; what has none has no limit. They may change: whoever has a place gives it
   * back to the gate that has the name then. `onIdle` is called when nobody is left inside that of a provider.
   */
  constructor(
    { providers, models, onIdle = () => {} }: {
      providers: ReadonlyMap<string, ConcurrencyGate>;
      models: ReadonlyMap<string, ConcurrencyGate>;
      onIdle?: (provider: string) => void;
    },
  ) {
    this.#providers = providers;
    this.#models = models;
    this.#onIdle = onIdle;
  }

  /** Calls under way at a target. */
  busy(targetId: string): number {
    return this.#busy.get(targetId) ?? 0;
  }

  /** Places that are had at a model, for a gate that is made meanwhile. */
  insideModel(targetId: string): number {
    return this.busy(targetId) + (this.#between.get(targetId) ?? 0);
  }

  /** As that, at a provider. */
  insideProvider(provider: string): number {
    let inside = 0;
    for (const [id, busy] of this.#busy) {
      if (id === provider || id.startsWith(`${provider}/`)) inside += busy;
    }
    return inside;
  }

  /** Takes the places if they are free. */
  tryEnter(target: Target): boolean {
    const model = this.#models.get(target.id);
    if (model !== undefined && !model.hasRoom) return false;
    const provider = this.#providers.get(target.provider);
    if (provider !== undefined && !provider.tryEnter()) return false;
    model?.tryEnter();
    count(this.#busy, target.id, 1);
    return true;
  }

  /** Resolves with the places, at once if they are free; rejects as `ConcurrencyGate.wait` does. */
  async enter(target: Target, signal: AbortLike): Promise<void> {
    const model = this.#models.get(target.id);
    if (model !== undefined && !model.tryEnter()) await model.wait(signal);
    const provider = this.#providers.get(target.provider);
    if (provider !== undefined && !provider.tryEnter()) {
      count(this.#between, target.id, 1);
      try {
        await provider.wait(signal);
      } catch (error) {
        this.#models.get(target.id)?.leave();
        throw error;
      } finally {
        count(this.#between, target.id, -1);
      }
    }
    count(this.#busy, target.id, 1);
  }

  /** Gives the places back; once for each time they were had. */
  leave(target: Target): void {
    count(this.#busy, target.id, -1);
    this.#models.get(target.id)?.leave();
    const provider = this.#providers.get(target.provider);
    provider?.leave();
    if (provider?.isIdle === true) this.#onIdle(target.provider);
  }
}

function count(counts: Map<string, number>, name: string, change: number): void {
  const next = (counts.get(name) ?? 0) + change;
  if (next === 0) counts.delete(name);
  else counts.set(name, next);
}
