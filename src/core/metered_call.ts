import type { AbortLike } from "./abort.ts";
import type { Price } from "./cost.ts";
import type { Usage } from "./usage.ts";

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
export interface MeteredAttempt {
  size: CallSize;
  price: Price | undefined;
  target: string;
  /** Of the usage row that settles it, and of the reservation. */
  usageId: string;
  /** Aborts when the call is no longer wanted. */
  signal?: AbortLike | undefined;
}

/** Leave for one try at one target; its usage row settles it. */
export interface Hold {
  /** Windows that its cost counts in; null for a key without budgets. */
  readonly windows: readonly string[] | null;
  /** What its cost is taken for when it is not known; null where nothing was reserved. */
  readonly reservedMicros: number | null;
  /** Its cost is settled before the client has the whole answer: what is reserved for it must not refuse the next call. */
  readonly isHard: boolean;
  /** Fields of the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** The try is over: what it used, null when no provider has seen it; `reached` says that there is a usage row. */
  end(usage: Usage | null, reached: boolean): void;
}

/** One call of a key whose calls are counted, over all its tries. */
export interface MeteredCall {
  /** Its key has limits of models, tokens or money: fields that might pass them by are refused. */
  readonly isLimited: boolean;
  /** Leave for one try; the first one is counted in the minute. Rejects when there is none, and when its signal aborts first. */
  hold(attempt: MeteredAttempt): Promise<Hold>;
}
