import { costMicros } from "../core/cost.ts";
import type { HubEvent } from "../core/event.ts";
import { isSteering } from "../core/steering.ts";
import type { Principal } from "../core/tool.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { Usage } from "../core/usage.ts";
import { hasBudgets, type KeyPolicy } from "../policy/key_policy.ts";
import type { Database } from "../store/database.ts";
import { listLostModelCalls, readSaidChars } from "../store/model_calls.ts";
import type { BegunCall } from "../store/usage_rows.ts";
import type { RunKey, StoredRun } from "../store/runs.ts";
import { readOpenReservation } from "../store/settle_budgets.ts";
import { ORPHANED, type UsageRow } from "../store/usage_rows.ts";
import type { RunnableAgent } from "./runnable_agent.ts";

/** How old a begun call is before it is booked though no replica takes its run over, in milliseconds. */
const LOST_AFTER_MS = 60_000;

/**
 * The usage rows of begun calls whose owner was lost, under the calls' own ids: what they read as their owner measured
 * it, and what of their answers is in the log. The rows of owners that are alive replace these.
 */
export async function orphanedRows(
  db: Database,
  key: RunKey,
  calls: readonly BegunCall[],
): Promise<UsageRow[]> {
  const rows: UsageRow[] = [];
  for (const [index, { row, epoch, price, isLogged }] of calls.entries()) {
    const { step } = row;
    // Of two calls of one step (a hedge, another attempt), the log has the answer of the later one.
    const isLast = !calls.slice(index + 1).some((later) =>
      later.isLogged && later.epoch === epoch && later.row.step === step
    );
    const chars = isLogged && isLast && step !== undefined
      ? await readSaidChars(db, { ...key, epoch, step })
      : 0;
    const usage = withAnswer(row.usage?.promptTokens ?? 0, chars);
    rows.push({ ...row, usage, costMicros: price === null ? null : costMicros(usage, price) });
  }
  return rows;
}

/** Books begun calls whose runs are over, or another replica's, and that were not booked when that began. Gives how many. */
export async function bookLostCalls(
  db: Database,
  recordUsage: (row: UsageRow) => void,
): Promise<number> {
  let count = 0;
  for (const { calls, ...key } of await listLostModelCalls(db, { ageMs: LOST_AFTER_MS })) {
    for (const row of await orphanedRows(db, key, calls)) recordUsage(row);
    count += calls.length;
  }
  return count;
}

/** A model call that a replica may have had under way when it was lost. */
export interface ReservedCall {
  principal: Principal;
  requestId: string;
  step: number;
  events: readonly HubEvent[];
  history: readonly UIMessage[];
  /** Calls of the run that are known to have begun. */
  begun: readonly BegunCall[];
}

/**
 * The row of a call whose money was reserved and of which no more is known: it may have been sent. It has the id of the
 * reservation and settles it; null when there is none.
 */
export async function reservedUsage(
  run: StoredRun,
  call: ReservedCall,
  { db, agent, policy }: { db: Database; agent: RunnableAgent; policy: KeyPolicy },
): Promise<UsageRow | null> {
  const { principal: { tenantId, keyId }, requestId, step, begun } = call;
  if (!hasBudgets(policy)) return null;
  const reservation = await readOpenReservation(db, { tenantId, keyId, requestId });
  if (reservation === null) return null;
  if (begun.some(({ row }) => row.usageId === reservation.usageId)) return null;
  const begins = call.events.findLastIndex(({ type }) => type === "step-start");
  const chars = call.events.slice(begins).reduce(
    (sum, event) => sum + ("delta" in event ? event.delta.length : 0),
    0,
  );
  const usage = withAnswer(estimatePrompt(call), chars);
  return {
    usageId: reservation.usageId,
    budgetWindows: reservation.windows,
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
    errorCode: ORPHANED,
    usage,
    estimated: true,
    costMicros: agent.costOf?.(usage) ?? null,
    startedAt: reservation.createdAt,
    firstTokenMs: null,
    durationMs: 0,
    bytesOut: 0,
    attempts: [],
  };
}

/** A token for four characters of an answer. */
function withAnswer(promptTokens: number, chars: number): Usage {
  const completionTokens = Math.ceil(chars / 4);
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    reasoningTokens: 0,
  };
}

/** What the call has read: what the run's last whole call had, in and out, with what came since; else the conversation. */
function estimatePrompt({ events, history }: ReservedCall): number {
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
