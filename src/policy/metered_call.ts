import type { AbortLike } from "../core/abort.ts";
import type { Price } from "../core/cost.ts";
import type { Usage } from "../core/usage.ts";
import type { KeyPolicy } from "./key_policy.ts";
import type { Asking } from "./may_call.ts";
import type { CountedCall } from "./rate_share.ts";

/** Whose call it is. */
export interface Caller extends Asking {
  requestId: string;
  tenantId: string;
  keyId: string;
}

/** The size of a call before it is made. */
export interface CallSize {
  requestBytes: number;
  /** Tokens that its text is taken for. */
  promptTokens: number;
  /** The most tokens that it may answer with. */
  outputTokens: number;
  /** Whether that is no assumption. */
  isLimited: boolean;
}

/** One try at a target. */
export interface Attempt {
  size: CallSize;
  price: Price | undefined;
  target: string;
  /** Of the usage row that settles it, and of the reservation. */
  usageId: string;
  /** Aborts when nobody wants it any more. */
  signal?: AbortLike | undefined;
}

/** Leave for one try at one target; its usage row settles it. */
export interface Hold {
  /** Windows that its cost counts in; null for a key without budgets. */
  readonly windows: readonly string[] | null;
  /** What its cost is taken for when nobody can tell it; null where nothing was reserved. */
  readonly reservedMicros: number | null;
  /** Its cost is settled before the client has the whole answer: what is reserved for it must not refuse the next call. */
  readonly isHard: boolean;
  /** Fields of the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** The try is over: what it used, null when no provider has seen it. */
  end(usage: Usage | null, reached: boolean): void;
}

/** Counts calls and reserves their costs. */
interface Counting {
  count(call: PolicyCall, attempt: Attempt): Promise<CountedCall>;
  reserve(call: PolicyCall & { counted: CountedCall }, attempt: Attempt): Promise<Hold>;
}

interface PolicyCall {
  caller: Caller;
  policy: KeyPolicy;
}

/** One call of a key whose calls are counted, over all its tries. */
export class MeteredCall {
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
  async hold(attempt: Attempt): Promise<Hold> {
    const call = { caller: this.#caller, policy: this.#policy };
    const counted = await this.#count(attempt);
    return await this.#spending.reserve({ ...call, counted }, attempt);
  }

  /** Of two tries at one time one counts for both; the other counts itself when that came to nothing. */
  async #count(attempt: Attempt): Promise<CountedCall> {
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
