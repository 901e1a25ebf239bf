import type { Usage } from "../core/usage.ts";
import { costOf, type Target } from "../providers/target.ts";
import type { Attempt } from "./attempt.ts";
import type { Hold } from "./meter.ts";
import { type AttemptTrace, type CallFacts, outcomeOf, type UsageFact } from "./usage_fact.ts";

/** What a try is accounted with. */
export interface Accounted {
  options: { recordUsage(fact: UsageFact): void };
  request: { facts: CallFacts; stream: boolean; prepare(target: Target): { body: Uint8Array } };
  trace: readonly AttemptTrace[];
  hold: Hold | null;
}

/** Tells what a try has cost, once it is over, and settles the leave that it had. */
export function account(attempt: Attempt, { options, request, trace, hold }: Accounted): void {
  const { target, failure } = attempt;
  if (!attempt.reached) {
    attempt.span?.end(attempt, { usage: null, estimated: false, costMicros: null });
    return hold?.end(null, false);
  }
  const isUntold = attempt.usage === null && hasWorked(attempt);
  const canEstimate = attempt.estimates !== "nothing";
  const usage = attempt.usage ??
    (isUntold && canEstimate ? estimate(attempt, request.prepare(target).body) : null);
  // Nobody can tell how much it made: a budget bears what was set aside for it.
  const assumedMicros = isUntold && !canEstimate ? hold?.reservedMicros ?? null : null;
  const estimated = isUntold && (canEstimate || assumedMicros !== null);
  const costMicros = usage === null ? assumedMicros : costOf(usage, target.override.pricing);
  attempt.span?.end(attempt, { usage, estimated, costMicros });
  options.recordUsage({
    ...request.facts,
    provider: target.provider,
    model: target.model,
    streamed: attempt.stream,
    outcome: outcomeOf(failure),
    status: attempt.status,
    errorCode: failure?.code ?? null,
    usage,
    estimated,
    costMicros,
    startedAt: attempt.startedAt,
    firstTokenMs: attempt.firstTokenMs,
    durationMs: attempt.durationMs,
    bytesOut: attempt.bytesOut,
    attempts: [...trace],
    ...(hold === null ? {} : { usageId: hold.usageId, budgetWindows: hold.windows }),
  });
  hold?.end(usage, true);
}

/**
 * True when a provider that told no usage will bill some all the same: something of its answer came, or it was at work
 * when the client left, its time was over or the connection broke. What it refused costs nothing.
 */
function hasWorked({ bytesIn, failure, status }: Attempt): boolean {
  if (failure?.status === 400 || (status !== null && status > 299)) return false;
  if (bytesIn > 0) return true;
  const outcome = outcomeOf(failure);
  return outcome === "aborted" || outcome === "timeout" || (outcome === "cut" && status !== null);
}

/** A token for four bytes of the request; answers are mostly framing, about 150 bytes a token in a stream. */
function estimate(attempt: Attempt, body: Uint8Array): Usage {
  const promptTokens = Math.ceil(body.length / 4);
  const completionTokens = attempt.estimates === "input"
    ? 0
    : Math.ceil(attempt.bytesIn / (attempt.stream ? 150 : 4));
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
}
