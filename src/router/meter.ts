import type { Price } from "../core/cost.ts";
import { HubError, toHubError } from "../core/error.ts";
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
  /** Rejects when there is no leave for this try. */
  hold(
    attempt: {
      size: { requestBytes: number; outputTokens: number };
      price: Price | undefined;
      target: string;
    },
  ): Promise<Hold>;
}

/** Leave for one try. */
export interface Hold {
  /** Of the usage row that settles it. */
  readonly usageId: string;
  readonly windows: readonly string[] | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The try is over; `reached` says that there is a usage row. */
  end(usage: Usage | null, reached: boolean): void;
}

/** Asks for leave for one try. Null when another target, that is cheaper or has a price, may still get it; see `failure`. */
export async function holdFor(
  metered: MeteredCall,
  { target, body, choices, meter }: {
    target: Target;
    body: Uint8Array;
    choices: number;
    meter: Meter;
  },
): Promise<{ hold: Hold } | { failure: HubError }> {
  const most = readMaxOutputTokens(body) ?? target.override.maxOutputTokens ??
    meter.assumedOutputTokens;
  const size = { requestBytes: body.length, outputTokens: most * choices };
  try {
    return {
      hold: await metered.hold({ size, price: target.override.pricing, target: target.id }),
    };
  } catch (error) {
    const failure = toHubError(error);
    if (failure.code === "insufficient_quota" || failure.clientCode === "unknown_price") {
      return { failure };
    }
    throw failure;
  }
}
