import type { HubEvent } from "../core/event.ts";
import { isSteering } from "../core/steering.ts";
import type { Principal } from "../core/tool.ts";
import type { UIMessage } from "../core/ui_message.ts";
import { hasBudgets, type KeyPolicy } from "../policy/key_policy.ts";
import type { Database } from "../store/database.ts";
import type { StoredRun } from "../store/runs.ts";
import { readOpenReservation } from "../store/settle_budgets.ts";
import type { UsageRow } from "../store/usage_rows.ts";
import type { RunnableAgent } from "./runnable_agent.ts";

/** A model call that a replica had under way when it was lost. */
export interface OrphanedCall {
  principal: Principal;
  requestId: string;
  step: number;
  events: readonly HubEvent[];
  history: readonly UIMessage[];
}

/**
 * The row of a call that was made and will be billed, and whose usage nobody has seen. Where the key has budgets it has
 * the id of the call's reservation and settles it; null when there is none, for then no call was under way.
 */
export async function orphanedUsage(
  run: StoredRun,
  call: OrphanedCall,
  { db, agent, policy }: { db: Database; agent: RunnableAgent; policy: KeyPolicy },
): Promise<(Omit<UsageRow, "usageId"> & { usageId?: string }) | null> {
  const { principal: { tenantId, keyId }, requestId, step } = call;
  const reservation = hasBudgets(policy)
    ? await readOpenReservation(db, { tenantId, keyId, requestId })
    : undefined;
  if (reservation === null) return null;
  const begun = call.events.findLastIndex(({ type }) => type === "step-start");
  const said = call.events.slice(begun).reduce(
    (sum, event) => sum + ("delta" in event ? event.delta.length : 0),
    0,
  );
  const promptTokens = estimatePrompt(call);
  const completionTokens = Math.ceil(said / 4);
  const usage = {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
  return {
    ...(reservation === undefined
      ? {}
      : { usageId: reservation.usageId, budgetWindows: reservation.windows }),
    tenantId,
    keyId,
    requestId,
    sessionId: run.sessionId,
    runId: run.runId,
    step,
    kind: "run",
    provider: run.provider ?? "unknown",
    model: run.model,
    publicModel: run.model,
    streamed: true,
    outcome: "cut",
    status: null,
    errorCode: "orphaned",
    usage,
    estimated: true,
    costMicros: agent.costOf?.(usage) ?? null,
    startedAt: run.createdAt,
    firstTokenMs: null,
    durationMs: 0,
    bytesOut: 0,
    attempts: [],
  };
}

/** What the call has read: what the run's last whole call had, in and out, with what came since; else the conversation. */
function estimatePrompt({ events, history }: OrphanedCall): number {
  const at = events.findLastIndex(({ type }) => type === "step-finish");
  const last = events[at];
  const known = last?.type === "step-finish" ? last.usage.totalTokens : 0;
  const unknown = known === 0
    ? [...history, ...events.filter(isRead)]
    : events.slice(at).filter(isRead);
  return known + Math.ceil(JSON.stringify(unknown).length / 4);
}

/** Whether the model reads it in its next call, as a whole. */
function isRead(event: HubEvent): boolean {
  return event.type === "tool-input-available" || event.type === "tool-output-error" ||
    event.type === "tool-output-denied" ||
    event.type === "tool-output-available" && event.preliminary !== true ||
    event.type === "data" && isSteering(event);
}
