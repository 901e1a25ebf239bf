import type { AbortLike } from "../core/abort.ts";
import type { ConcurrencyGate } from "../core/concurrency_gate.ts";
import type { Principal } from "../core/tool.ts";
import type { KeyGates } from "./key_gates.ts";

/** A request that wants in, and the gates at which it has a place. */
export interface Visitor {
  readonly principal: Pick<Principal, "keyId">;
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
   * Null when there was room; else a promise of it. Throws or rejects as `ConcurrencyGate.wait` does. Whatever comes of
   * it, `leave` gives back what was had.
   */
  enter(visitor: Visitor): Promise<void> | null {
    const key = this.#keys === null ? null : this.#keys.gateOf(visitor.principal.keyId);
    if (key !== null && !key.tryEnter()) {
      return this.#enterLater(visitor, key, key.wait(visitor.signal));
    }
    visitor.keyGate = key;
    return this.#enterHub(visitor);
  }

  /** Idempotent. */
  leave(visitor: Visitor): void {
    const { keyGate, hubGate } = visitor;
    visitor.keyGate = visitor.hubGate = null;
    hubGate?.leave();
    keyGate?.leave();
  }

  #enterHub(visitor: Visitor): Promise<void> | null {
    const hub = this.#hub;
    if (hub !== null && !hub.tryEnter()) {
      return hub.wait(visitor.signal).then(() => {
        visitor.hubGate = hub;
        assertThere(visitor);
      });
    }
    visitor.hubGate = hub;
    return null;
  }

  async #enterLater(visitor: Visitor, key: ConcurrencyGate, place: Promise<void>): Promise<void> {
    await place;
    visitor.keyGate = key;
    assertThere(visitor);
    await this.#enterHub(visitor);
  }
}

/** A place may come in the very turn in which the client leaves. */
function assertThere({ signal }: Visitor): void {
  if (signal.aborted) throw signal.reason;
}
