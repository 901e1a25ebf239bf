import type { Hold } from "../core/metered_call.ts";
import type { ModelUse } from "../core/model_use.ts";
import { NO_USAGE, type Usage } from "../core/usage.ts";
import { costOf } from "../providers/target.ts";
import type { Attempt } from "./attempt.ts";
import type { Begun } from "./attempt_options.ts";
import { type AttemptTrace, type CallFacts, outcomeOf, type UsageFact } from "./usage_fact.ts";

/** What a try is accounted with. */
export interface Accounted {
  options: { recordUsage(fact: UsageFact, isUrgent: boolean): Promise<void> | void };
  usageId: string;
  request: {
    facts: CallFacts;
    stream: boolean;
    onUsed?(use: ModelUse): void;
  };
  trace: readonly AttemptTrace[];
  hold: Hold | null;
}

/**
 * Tells what a try has cost, once it is over, and ends its reservation. Gives a promise when the cost counts in a hard
 * budget: it resolves when that is settled, or takes too long to be waited for.
 */
export function account(
  attempt: Attempt,
  { options, request, usageId, trace, hold }: Accounted,
): Promise<void> | void {
  const { target, failure } = attempt;
  if (!attempt.reached) {
    attempt.span?.end(attempt, { usage: null, estimated: false, costMicros: null });
    return hold?.end(null, false);
  }
  const isUntold = attempt.usage === null && hasWorked(attempt);
  const canEstimate = attempt.estimates !== "nothing";
  const usage = attempt.usage ??
    (isUntold && canEstimate ? estimate(attempt) : null);
  // Nobody can tell how much it made: a budget bears what was set aside for it.
  const assumedMicros = isUntold && !canEstimate ? hold?.reservedMicros ?? null : null;
  const estimated = isUntold && (canEstimate || assumedMicros !== null);
  const costMicros = usage === null ? assumedMicros : costOf(usage, target.override.pricing);
  attempt.span?.end(attempt, { usage, estimated, costMicros });
  const fact: UsageFact = {
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
    usageId,
    ...(hold === null ? {} : { budgetWindows: hold.windows }),
  };
  if (usage !== null || costMicros !== null) {
    request.onUsed?.({ usage: usage ?? NO_USAGE, costMicros, estimated });
  }
  const settled = options.recordUsage(fact, hold?.isHard === true);
  hold?.end(usage, true);
  return settled;
}

/** The row of a try that is about to be sent, for when its owner is lost: what it reads is estimated, its answer unknown. */
export function begunFact(
  { target, stream, startedAt, requestBytes }: Begun,
  { request, usageId, hold }: Omit<Accounted, "options" | "trace">,
): UsageFact {
  const usage = estimateInput(requestBytes);
  return {
    ...request.facts,
    provider: target.provider,
    model: target.model,
    streamed: stream,
    outcome: "cut",
    status: null,
    errorCode: "orphaned",
    usage,
    estimated: true,
    costMicros: costOf(usage, target.override.pricing),
    startedAt,
    firstTokenMs: null,
    durationMs: 0,
    bytesOut: 0,
    attempts: [],
    usageId,
    ...(hold === null ? {} : { budgetWindows: hold.windows }),
  };
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
function estimate(attempt: Attempt): Usage {
  const input = estimateInput(attempt.requestBytes);
  const completionTokens = attempt.estimates === "input"
    ? 0
    : Math.ceil(attempt.bytesIn / (attempt.stream ? 150 : 4));
  return { ...input, completionTokens, totalTokens: input.promptTokens + completionTokens };
}

function estimateInput(requestBytes: number): Usage {
  const promptTokens = Math.ceil(requestBytes / 4);
  return {
    promptTokens,
    completionTokens: 0,
    totalTokens: promptTokens,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
}
