import type { Hold, MeteredAttempt, MeteredCall } from "../core/metered_call.ts";
import type { KeyPolicy } from "./key_policy.ts";
import type { Asking } from "./may_call.ts";
import type { CountedCall } from "./rate_share.ts";

/** Whose call it is. */
export interface Caller extends Asking {
  requestId: string;
  tenantId: string;
  keyId: string;
}

/** Counts calls and reserves their costs. */
interface Counting {
  count(call: PolicyCall, attempt: MeteredAttempt): Promise<CountedCall>;
  reserve(call: PolicyCall & { counted: CountedCall }, attempt: MeteredAttempt): Promise<Hold>;
}

interface PolicyCall {
  caller: Caller;
  policy: KeyPolicy;
}

/** A call that is counted and reserved by its key's policy. */
export class MeteredKeyCall implements MeteredCall {
  readonly #spending: Counting;
  readonly #caller: Caller;
  readonly #policy: KeyPolicy;
  /** Its key has limits of models, tokens or money. */
  readonly isLimited: boolean;
  #counting: Promise<CountedCall> | null = null;

  constructor(spending: Counting, caller: Caller, policy: KeyPolicy, isLimited: boolean) {
    this.isLimited = isLimited;
    this.#spending = spending;
    this.#caller = caller;
    this.#policy = policy;
  }

  /** Leave for one try; the first one is counted in the minute. Rejects when there is none. */
  async hold(attempt: MeteredAttempt): Promise<Hold> {
    const call = { caller: this.#caller, policy: this.#policy };
    const counted = await this.#count(attempt);
    return await this.#spending.reserve({ ...call, counted }, attempt);
  }

  /** Of two tries at one time one counts for both; the other counts itself when that came to nothing. */
  async #count(attempt: MeteredAttempt): Promise<CountedCall> {
    for (;;) {
      const others = this.#counting;
      const call = { caller: this.#caller, policy: this.#policy };
      const counting = this.#counting ??= this.#spending.count(call, attempt);
      try {
        return await counting;
      } catch (error) {
        if (this.#counting === counting) this.#counting = null;
        if (others === null || attempt.signal?.aborted === true) throw error;
      }
    }
  }
}
