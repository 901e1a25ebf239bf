import type { AbortLike } from "../core/abort.ts";
import type { ConcurrencyGate } from "../core/concurrency_gate.ts";
import type { Principal } from "../core/tool.ts";
import type { KeyGates } from "./key_gates.ts";

/** A request that wants in, and the gates at which it has a place. */
export interface Visitor {
  readonly principal: Principal;
  /** Aborts when it leaves. */
  readonly signal: AbortLike;
  keyGate: ConcurrencyGate | null;
  hubGate: ConcurrencyGate | null;
}

/**
 * Room for requests: a place of its key first, then one of the hub, so that a key which asks for too much waits for
 * itself and holds up nobody else. Calls of providers come after both.
 */
export class Admission {
  readonly #keys: KeyGates | null;
  readonly #hub: ConcurrencyGate | null;

  /** Null for what has no limit. */
  constructor({ keys, hub }: { keys: KeyGates | null; hub: ConcurrencyGate | null }) {
    this.#keys = keys;
    this.#hub = hub;
  }

  /**
   * Null when there was room; else a promise of it, which rejects as `ConcurrencyGate.enter` does. Whatever comes of it,
   * `leave` gives back what was had.
   */
  enter(visitor: Visitor): Promise<void> | null {
    const key = this.#keys === null ? null : this.#keys.gateOf(visitor.principal.keyId);
    if (key === null || key.tryEnter()) {
      visitor.keyGate = key;
      if (this.#hub === null || this.#hub.tryEnter()) {
        visitor.hubGate = this.#hub;
        return null;
      }
    }
    return this.#wait(visitor, key);
  }

  /** Idempotent. */
  leave(visitor: Visitor): void {
    const { keyGate, hubGate } = visitor;
    visitor.keyGate = visitor.hubGate = null;
    hubGate?.leave();
    keyGate?.leave();
  }

  async #wait(visitor: Visitor, key: ConcurrencyGate | null): Promise<void> {
    const { signal } = visitor;
    if (key !== null && visitor.keyGate === null) {
      await key.enter(signal);
      visitor.keyGate = key;
    }
    await this.#hub?.enter(signal);
    visitor.hubGate = this.#hub;
    // The place may have come in the very turn in which the client left.
    if (signal.aborted) throw signal.reason;
  }
}
