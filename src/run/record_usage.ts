import type { BegunFact, UsageFact } from "../router/usage_fact.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { UsageSpool } from "./usage_spool.ts";

/**
 * Books every attempt that reached a provider: counted at once, written with the next batch of rows, or at once when that
 * is urgent.
 */
export function createRecordUsage(
  { metrics, spool }: { metrics: Metrics; spool: UsageSpool },
): (fact: UsageFact, isUrgent: boolean) => Promise<void> | void {
  return (fact, isUrgent) => {
    const { provider, model, usage } = fact;
    metrics.upstreamAttempt({ provider, model, outcome: fact.errorCode ?? "ok" });
    if (fact.firstTokenMs !== null) metrics.firstToken(provider, fact.firstTokenMs);
    if (usage !== null) {
      metrics.tokens({ provider, model, kind: "prompt", count: usage.promptTokens });
      metrics.tokens({ provider, model, kind: "completion", count: usage.completionTokens });
      metrics.tokens({ provider, model, kind: "cached", count: usage.cachedTokens });
      metrics.tokens({ provider, model, kind: "reasoning", count: usage.reasoningTokens });
      const written = usage.cacheWriteTokens ?? 0;
      metrics.tokens({ provider, model, kind: "cache_write", count: written });
      if (fact.costMicros === null) metrics.unknownPrice({ provider, model });
      else metrics.cost({ provider, model, micros: fact.costMicros });
    }
    return isUrgent ? spool.settle(fact) : spool.add(fact);
  };
}

/** Notes calls of runs that are about to be sent, so that the replica that takes such a run over can book them. */
export function createNoteBegun(spool: UsageSpool): (begun: BegunFact) => void {
  return ({ fact: { call: _, runId, ...row }, call: { epoch, isLogged }, price }) => {
    if (runId !== undefined) spool.begin({ row: { ...row, runId }, epoch, price, isLogged });
  };
}
