import type { IdSource } from "../core/id.ts";
import type { UsageFact } from "../router/usage_fact.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { UsageSpool } from "./usage_spool.ts";

/** Books every attempt that reached a provider: counted at once, written with the next batch of rows. */
export function createRecordUsage(
  { metrics, spool, ids }: { metrics: Metrics; spool: UsageSpool; ids: IdSource },
): (fact: UsageFact) => void {
  return (fact) => {
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
    spool.add({ ...fact, usageId: fact.usageId ?? ids.next("usg") });
  };
}
