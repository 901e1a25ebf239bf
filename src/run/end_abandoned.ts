import { checkLog } from "../core/check_log.ts";
import type { HubEvent } from "../core/event.ts";
import { addCosts } from "../core/cost.ts";
import { createFold } from "../core/fold.ts";
import { isUsed, lostCallsEvent } from "../core/model_use.ts";
import { OpenQuestions } from "../core/open_questions.ts";
import { readQuestion } from "../core/run_question.ts";
import type { Log } from "../core/log.ts";
import { NO_USAGE } from "../core/usage.ts";
import { OUTCOME_UNKNOWN } from "../inference/resume.ts";
import { terminalEvents } from "../inference/terminal.ts";
import { commitRuns } from "../store/commit_runs.ts";
import type { Database } from "../store/database.ts";
import type { ToolCallRow } from "../store/run_commit.ts";
import type { ClaimedRun } from "../store/claim_runs.ts";
import { readRun } from "../store/runs.ts";
import { readSpentBudget } from "../store/run_budgets.ts";
import { readRunUsage } from "../store/run_usage.ts";
import type { UsageRow } from "../store/usage_rows.ts";
import { readPendingSteering } from "../store/steering.ts";
import { readOpenSteps } from "../store/steps.ts";
import { readOpenCalls } from "../store/tool_calls.ts";
import { lostCalls, withCostBeside } from "./lost_calls.ts";
import { readLog, replayRecorded } from "./stored_log.ts";

/** Why a run that this replica has claimed is ended instead of taken up. */
export interface AbandonedEnd {
  code: string;
  errorText: string;
}

/**
 * Ends a run that this replica has claimed and cannot take up: writes the terminal sequence behind what its log has.
 * Steps and tool calls without a result end as interrupted; nothing is run again.
 */
export async function endAbandoned(
  db: Database,
  claim: ClaimedRun,
  { leaseMs, log, why, booked = [] }: {
    leaseMs: number;
    log: Log;
    why: AbandonedEnd;
    /** Usage rows of its model calls that are about to be written. */
    booked?: readonly UsageRow[];
  },
): Promise<void> {
  const key = { tenantId: claim.tenantId, runId: claim.runId };
  const run = await readRun(db, key);
  if (run === null) return;
  const fold = createFold();
  const whole = await readLog(db, key);
  const parts = replayRecorded(fold, whole.map(({ event }) => event));
  const { sessionId, messageId, model } = run;
  const events: HubEvent[] = [];
  const open = new OpenQuestions();
  for (const { event } of whole) open.see(event);
  const add = (event: HubEvent) => {
    fold.apply(event);
    events.push(event);
  };
  let seq = run.lastSeq;
  const { step } = fold.open();
  if (run.lastSeq === 0) add({ type: "start", messageId, runId: key.runId, sessionId, model });
  else if (step !== null) {
    // Clients may have seen numbers that were never committed: only a reset may skip them.
    add({ type: "step-reset", step });
    seq = run.reservedTo;
  }
  const logged = whole.map(({ event }) => event);
  const known = run.costMicros ??
    withCostBeside((await readSpentBudget(db, key))?.costMicros ?? null, logged);
  const lost = lostCalls(await readRunUsage(db, key), {
    booked,
    events: logged,
    costMicros: known,
  });
  if (isUsed(lost)) add(lostCallsEvent(lost));
  const costMicros = addCosts(known, lost.costMicros);
  const estimated = lost.estimated;
  open.closings().forEach(add);
  const toolCalls = (await readOpenCalls(db, key)).map(interruptedCall);
  for (const { toolCallId, state, errorText } of toolCalls) {
    if (state !== "unknown" || fold.toolPart(toolCallId)?.state !== "call") continue;
    add({ type: "tool-output-error", toolCallId, errorText });
  }
  const { steered, texts } = await readPendingSteering(db, key);
  terminalEvents(fold, { kind: "error", ...why, retryable: true }, {
    costMicros,
    estimated,
    metadata: { model, provider: run.provider ?? "" },
    undelivered: texts,
  }).forEach(add);
  for (const change of fold.takeChangedParts()) parts.set(change.index, change);
  const sequenced = events.map((event) => ({ seq: ++seq, event }));
  const problems = checkLog([...whole, ...sequenced]);
  if (problems.length > 0) log.error("An abandoned run left a broken log", { ...key, problems });
  const finish = sequenced.at(-1)?.event;
  if (finish?.type !== "finish") return;
  await commitRuns(db, {
    commits: [{
      ...key,
      sessionId,
      messageId,
      epoch: claim.epoch,
      follows: run.lastSeq,
      events: sequenced,
      reserveTo: seq,
      parts: [...parts.values()],
      steps: (await readOpenSteps(db, key)).map((row) => ({
        ...row,
        state: "done" as const,
        finishReason: "error" as const,
        usage: { ...NO_USAGE },
      })),
      toolCalls,
      questions: events.flatMap((event) => {
        const closed = event.type === "data" ? readQuestion(event) : null;
        return closed === null ? [] : [{ ...closed, timeoutMs: 0 }];
      }),
      steering: texts.map(({ steeringId }) => ({ steeringId, state: "undelivered" })),
      steered,
      finish: {
        status: "failed",
        finishReason: "error",
        usage: finish.usage,
        costMicros,
        provider: run.provider ?? "",
        model,
        error: {
          code: why.code,
          message: why.errorText,
          retryable: true,
        },
      },
    }],
    leaseMs,
  });
}

/** The journal row of a call that nobody waits for any more. Only one that began and may act outside is in doubt. */
function interruptedCall(row: ToolCallRow): ToolCallRow & { errorText: string } {
  const isInDoubt = row.state === "started" && row.effect !== "pure";
  return isInDoubt
    ? { ...row, state: "unknown", errorText: OUTCOME_UNKNOWN }
    : { ...row, state: "cancelled", errorText: "interrupted" };
}
