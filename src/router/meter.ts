import type { AbortLike } from "../core/abort.ts";
import type { CostBound, Price } from "../core/cost.ts";
import { HubError, toHubError } from "../core/error.ts";
import { boundPromptTokens } from "../core/prompt_bound.ts";
import type { Usage } from "../core/usage.ts";
import type { Target } from "../providers/target.ts";
import { readMaxOutputTokens } from "../wire/max_output_tokens.ts";
import type { CallFacts } from "./usage_fact.ts";

/** Gives leave to call. */
export interface Meter {
  /** Null when nothing of the call is counted, which takes no time; throws when its key must not make it. */
  enter(facts: CallFacts): MeteredCall | null;
  /** Tokens of an answer whose request sets no limit. */
  readonly assumedOutputTokens: number;
}

/** A call that is counted, over all its tries. */
export interface MeteredCall {
  /** Rejects when there is no leave for this try, and when its signal aborts before it was asked for. */
  hold(
    attempt: {
      size: {
        requestBytes: number;
        promptTokens: number;
        outputTokens: number;
        isLimited: boolean;
      };
      price: Price | undefined;
      target: string;
      /** Of the usage row that settles it, and of the reservation. */
      usageId: string;
      signal: AbortLike;
    },
  ): Promise<Hold>;
}

/** Leave for one try. */
export interface Hold {
  readonly windows: readonly string[] | null;
  /** What its cost is taken for when nobody can tell it; null where nothing was reserved. */
  readonly reservedMicros: number | null;
  /** Its row is settled before the answer's last byte. */
  readonly isHard: boolean;
  readonly headers: Readonly<Record<string, string>>;
  /** The try is over; `reached` says that there is a usage row. */
  end(usage: Usage | null, reached: boolean): void;
}

/** What another target may have: a lower price, one at all, a limit. */
const OF_TARGET: ReadonlySet<string> = new Set([
  "insufficient_quota",
  "unknown_price",
  "unbounded_cost",
]);
/** No answer is longer; a request may say what it likes. */
const MOST_OUTPUT_TOKENS = 1e12;

/** Asks for leave for one try. Null when another target, that is cheaper or has a price, may still get it; see `failure`. */
export async function holdFor(
  metered: MeteredCall,
  { target, usageId, body, choices, meter, bound, signal }: {
    target: Target;
    usageId: string;
    body: Uint8Array;
    choices: number;
    meter: Meter;
    bound: CostBound | undefined;
    signal: AbortLike;
  },
): Promise<{ hold: Hold } | { failure: HubError }> {
  const asked = bound === "limit" ? null : readMaxOutputTokens(body);
  const limit = asked ?? target.override.maxOutputTokens;
  const size = {
    requestBytes: body.length,
    promptTokens: boundPromptTokens(body),
    outputTokens: Math.min(
      MOST_OUTPUT_TOKENS,
      (limit ?? meter.assumedOutputTokens) * choices,
    ),
    isLimited: limit !== undefined,
  };
  try {
    const price = target.override.pricing;
    return { hold: await metered.hold({ size, price, target: target.id, usageId, signal }) };
  } catch (error) {
    const failure = toHubError(error);
    if (OF_TARGET.has(failure.clientCode)) return { failure };
    throw failure;
  }
}
