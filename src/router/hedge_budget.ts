/** Second tries that are saved up at most, so that a quiet hour is no licence for a storm. */
const MAX_SAVED = 10;
/** Shares are no exact binary fractions; twenty of a twentieth must make one. */
const ROUNDING = 1e-9;

/** Lets a share of requests ask a second target: at no moment have more done so than that share of all until then. */
export class HedgeBudget {
  readonly #share: number;
  #saved = 0;

  /** `share` is between 0 and 1. */
  constructor(share: number) {
    this.#share = share;
  }

  /** Counts a request. */
  earn(): void {
    this.#saved = Math.min(MAX_SAVED, this.#saved + this.#share);
  }

  /** True, and spent, when the budget has one left. */
  spend(): boolean {
    if (this.#saved < 1 - ROUNDING) return false;
    this.#saved = Math.max(0, this.#saved - 1);
    return true;
  }
}
