import type { Usage } from "../core/usage.ts";

/**
 * The tokens that a call has in its key's minute, over all its tries: what the tries have used that are over, and what
 * one may use as long as any is under way.
 */
export class RateShare {
  readonly #reserved: number;
  readonly #change: (by: number) => void;
  #counted: number;
  #used = 0;
  #open = 0;

  /** `reserved` is counted already; `change` adds to it. */
  constructor(reserved: number, change: (by: number) => void) {
    this.#reserved = reserved;
    this.#counted = reserved;
    this.#change = change;
  }

  /** A try begins. */
  begin(): void {
    this.#open++;
    if (this.#used > 0) this.#correct();
  }

  /** A try is over: what it used, null when its usage is unknown. */
  end(usage: Pick<Usage, "promptTokens" | "completionTokens"> | null): void {
    this.#open--;
    if (usage !== null) this.#used += usage.promptTokens + usage.completionTokens;
    // A call of which nothing is known keeps what it has: the next try may begin at once.
    if (this.#used > 0 || usage !== null) this.#correct();
  }

  #correct(): void {
    const wanted = this.#used + (this.#open > 0 ? this.#reserved : 0);
    const by = wanted - this.#counted;
    this.#counted = wanted;
    if (by !== 0) this.#change(by);
  }
}

/** A call that is counted in its key's minute. */
export interface CountedCall {
  headers: Readonly<Record<string, string>>;
  /** Null where tokens are not counted. */
  share: RateShare | null;
}

/** A call of a key without rates, or one that is served while the database is away. */
export const UNCOUNTED: CountedCall = Object.freeze({ headers: Object.freeze({}), share: null });
