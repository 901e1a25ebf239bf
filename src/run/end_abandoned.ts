import { checkLog } from "../core/check_log.ts";
import { type HubEvent, isTransition, type SequencedEvent } from "../core/event.ts";
import { createFold } from "../core/fold.ts";
import type { Log } from "../core/log.ts";
import { terminalEvents } from "../inference/terminal.ts";
import { commitRuns } from "../store/commit_runs.ts";
import type { Database } from "../store/database.ts";
import type { RunCommit, ToolCallRow } from "../store/run_commit.ts";
import { claimAbandoned, readEvents, readRun, type RunKey } from "../store/runs.ts";
import { readOpenCalls } from "../store/tool_calls.ts";

/** What the next model reads for a call that may have done its work. */
export const OUTCOME_UNKNOWN = "interrupted, outcome unknown: inspect before repeating";

const INTERRUPTED = {
  errorText: "The hub that ran this was stopped before it was done",
  code: "interrupted",
  retryable: true,
};

/**
 * Ends runs whose replica died: claims each with a new epoch, so that its former owner is fenced, and writes the
 * terminal sequence behind what the log has. Tool calls without a result end as interrupted; nothing is run again.
 * Gives the number of runs ended.
 */
export async function endAbandoned(
  db: Database,
  options: {
    owner: string;
    leaseMs: number;
    log: Log;
    /** Called for each run that was ended here. */
    onCommitted?(runId: string): void;
  },
): Promise<number> {
  const claimed = await claimAbandoned(db, { ...options, limit: 100 });
  let ended = 0;
  for (const key of claimed) {
    try {
      await endOne(db, key, options);
      ended++;
      options.onCommitted?.(key.runId);
      options.log.warn("Ended a run whose replica was lost", { runId: key.runId });
    } catch (error) {
      options.log.error("A run whose replica was lost could not be ended", { ...key, error });
    }
  }
  return ended;
}

async function endOne(
  db: Database,
  key: RunKey,
  { leaseMs, log }: { leaseMs: number; log: Log },
): Promise<void> {
  const run = await readRun(db, key);
  if (run === null) return;
  const fold = createFold();
  const parts = new Map<number, RunCommit["parts"][number]>();
  // As often as the recorder took them, so that a place it has filled and lost again comes as void.
  const takeParts = () => {
    for (const change of fold.takeChangedParts()) parts.set(change.index, change);
  };
  const whole: SequencedEvent[] = [];
  let afterSeq = 0;
  for (;;) {
    const page = await readEvents(db, { ...key, afterSeq, limit: 500 });
    if (page.length === 0) break;
    for (const { event } of page) {
      fold.apply(event);
      if (isTransition(event)) takeParts();
    }
    whole.push(...page);
    afterSeq = page.at(-1)?.seq ?? afterSeq;
  }
  const { sessionId, messageId, model } = run;
  const events: HubEvent[] = [];
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
  const toolCalls = (await readOpenCalls(db, key)).map(interruptedCall);
  for (const { toolCallId, state, errorText } of toolCalls) {
    if (state !== "unknown" || fold.toolPart(toolCallId)?.state !== "call") continue;
    add({ type: "tool-output-error", toolCallId, errorText });
  }
  terminalEvents(fold, { kind: "error", ...INTERRUPTED }, {
    costMicros: null,
    metadata: { model, provider: run.provider ?? "" },
  }).forEach(add);
  takeParts();
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
      epoch: run.epoch,
      events: sequenced,
      reserveTo: seq,
      parts: [...parts.values()],
      steps: [],
      toolCalls,
      finish: {
        status: "failed",
        finishReason: "error",
        usage: finish.usage,
        costMicros: null,
        provider: run.provider ?? "",
        model,
        error: {
          code: INTERRUPTED.code,
          message: INTERRUPTED.errorText,
          retryable: INTERRUPTED.retryable,
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
