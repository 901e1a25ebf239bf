import type { FinishReason, HubEvent } from "../core/event.ts";
import type { Fold } from "../core/fold.ts";
import type { ToolPart } from "../core/ui_message.ts";
import type { RunResume } from "./agent_run.ts";
import type { ReadyCall } from "./judge_calls.ts";
import type { ToolCallRecord } from "./loop_batch.ts";
import type { Ending } from "./terminal.ts";
import type { ToolSet } from "./tool_set.ts";

/** What the next model reads for a call that may have done its work. */
export const OUTCOME_UNKNOWN = "interrupted, outcome unknown: inspect before repeating";

/** Where the loop goes on. */
export interface ResumePoint {
  /** The next step to take. */
  step: number;
  /** It was begun before: its answer is void, and the model is asked again. */
  isReset: boolean;
  /** Calls of the step before that run now: they had not begun, or may be repeated. */
  calls: ReadyCall[];
  /** Outcomes of the other calls that nobody waits for any more. */
  verdicts: { event: HubEvent; record: ToolCallRecord | null }[];
  /** The run has called a tool. */
  hasCalled: boolean;
  /** Set when nothing is left but the end. */
  ending: Ending | null;
}

/**
 * Finds the place from what is durable. A finished step is kept with all its results; a step in flight is begun again;
 * a call that had not begun runs, one that had begun runs again only when that does no harm. Anything else is in doubt,
 * and the model reads that.
 */
export function findResumePoint(
  fold: Fold,
  { openCalls }: RunResume,
  { tools }: { tools: ToolSet },
): ResumePoint {
  const parts = fold.message().parts.filter((part): part is ToolPart => part.type === "tool");
  const point: ResumePoint = {
    step: 0,
    isReset: false,
    calls: [],
    verdicts: [],
    hasCalled: parts.length > 0,
    ending: null,
  };
  const { step: open } = fold.open();
  if (open !== null) return { ...point, step: open, isReset: true };
  const last = fold.facts().steps.at(-1);
  if (last === undefined) return point;
  point.step = last.step + 1;
  const own = parts.filter((part) => part.step === last.step);
  const isOver = own.length === 0 || last.finishReason === "content-filter";
  if (isOver) point.ending = endingAfter(last.finishReason);
  const journal = new Map(openCalls.map((record) => [record.toolCallId, record]));
  for (const part of own.filter(({ state }) => state === "call")) {
    const record = journal.get(part.toolCallId);
    const ready = record === undefined ? null : readyCall(record, tools);
    if (ready !== null && !isOver) point.calls.push(ready);
    else point.verdicts.push(verdictOn(part, record));
  }
  return point;
}

function endingAfter(reason: FinishReason | undefined): Ending {
  const said = reason === undefined || reason === "error" || reason === "aborted" ? "stop" : reason;
  return { kind: "finish", finishReason: said };
}

/** Rebuilds the run's message from its log; gives the number that its next part may have. */
export function replayInto(fold: Fold, events: readonly HubEvent[]): number {
  let nextPart = 0;
  for (const event of events) {
    fold.apply(event);
    const number = "id" in event ? /^p(\d+)$/.exec(event.id ?? "")?.[1] : undefined;
    if (number !== undefined) nextPart = Math.max(nextPart, Number(number) + 1);
  }
  return nextPart;
}

/** The call as it can run now; null when it must not, or its tool is gone. */
function readyCall(record: ToolCallRecord, tools: ToolSet): ReadyCall | null {
  const mayRun = record.state === "ready" ||
    (record.state === "started" && record.effect !== "effect");
  const tool = mayRun ? tools.find(record.toolName) : undefined;
  if (tool === undefined || record.input === null) return null;
  const { input } = record;
  return { kind: "ready", tool, input, record: { ...record, state: "ready" } };
}

function verdictOn(
  { toolCallId, toolName }: ToolPart,
  record: ToolCallRecord | undefined,
): ResumePoint["verdicts"][number] {
  const isInDoubt = record?.state === "started" && record.effect !== "pure";
  const errorText = isInDoubt
    ? OUTCOME_UNKNOWN
    : `Not executed: interrupted, and ${toolName} cannot be run here`;
  return {
    event: { type: "tool-output-error", toolCallId, errorText },
    record: record === undefined
      ? null
      : { ...record, state: isInDoubt ? "unknown" : "cancelled", errorText },
  };
}
