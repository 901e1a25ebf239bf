import { HubError } from "../../core/error.ts";
import type { Caller } from "./served_tool.ts";

/** Bounds of the connections to servers that requests have for themselves. */
export interface HandedBounds {
  maxPerKey: number;
  maxTotal: number;
}

const BOUNDS: Readonly<HandedBounds> = Object.freeze({ maxPerKey: 100, maxTotal: 1000 });

/** What there is room for: a caller with what it hands over. */
type Guest = Pick<Caller, "handed"> & { principal: Pick<Caller["principal"], "keyId"> };

/** Each credential that a request hands over is a connection of its own: so many of a key, and in all, at a replica. */
export class HandedRoom {
  readonly #bounds: HandedBounds;
  readonly #open = new Map<string, number>();
  #total = 0;

  constructor(bounds: HandedBounds = BOUNDS) {
    this.#bounds = bounds;
  }

  /** How many there are. */
  get size(): number {
    return this.#total;
  }

  /** Throws `rate_limit_exceeded` when the key would have too many, `overloaded` when all together would. */
  assertFor({ handed, principal: { keyId } }: Guest): void {
    const { maxPerKey, maxTotal } = this.#bounds;
    const wanted = handed?.servers.length ?? 0;
    if (wanted === 0) return;
    if ((this.#open.get(keyId) ?? 0) + wanted > maxPerKey) {
      throw new HubError(
        "rate_limit_exceeded",
        `The API key has ${maxPerKey} connections by handed credentials, as many as it may have`,
        { retryAfterMs: 1000 },
      );
    }
    if (this.#total + wanted <= maxTotal) return;
    throw new HubError(
      "overloaded",
      `The hub has ${maxTotal} connections by handed credentials already`,
      { retryAfterMs: 1000 },
    );
  }

  /** Counts those of a request, until what it gives is called once. Throws as `assertFor` does. */
  enter(guest: Guest): () => void {
    this.assertFor(guest);
    const { keyId } = guest.principal;
    const count = guest.handed?.servers.length ?? 0;
    this.#add(keyId, count);
    return () => this.#add(keyId, -count);
  }

  #add(keyId: string, count: number): void {
    const open = (this.#open.get(keyId) ?? 0) + count;
    this.#total += count;
    if (open > 0) this.#open.set(keyId, open);
    else this.#open.delete(keyId);
  }
}
