import type { FinishReason, HubEvent } from "../core/event.ts";
import type { Fold } from "../core/fold.ts";
import type { StepFacts } from "../core/run_facts.ts";
import { readSteering } from "../core/steering.ts";
import type { Tool } from "../core/tool.ts";
import type { ToolPart } from "../core/ui_message.ts";
import type { RunResume } from "./agent_run.ts";
import { decide, stateOf } from "./approvals.ts";
import { definitionHash } from "./definition_hash.ts";
import { type ReadyCall, repeatKey } from "./judge_calls.ts";
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
  /** Calls of the step before that run now: a person has let them, or they may be repeated. */
  calls: ReadyCall[];
  /** Calls of that step that had not begun, and that no person has let: whether they run is decided anew. */
  unjudged: ReadyCall[];
  /** Calls of that step that nobody has decided. */
  asked: ToolCallRecord[];
  /** Answers of people, and outcomes of calls that nobody waits for any more. */
  verdicts: { events: HubEvent[]; record: ToolCallRecord | null }[];
  /** The first step behind the last whole answer: where the model began to answer what was said last. */
  turnStart: number;
  /** Set when nothing is left but the end. */
  ending: Ending | null;
}

/**
 * Finds the place from what is durable. A finished step is kept with all its results; a step in flight is begun again;
 * a call that had not begun runs, one that had begun runs again only when that does no harm and its tool is still the same.
 * Anything else is in doubt, and the model reads that.
 */
export function findResumePoint(
  fold: Fold,
  { openCalls, decisions }: RunResume,
  { tools }: { tools: ToolSet },
): ResumePoint {
  const all = fold.message().parts;
  const parts = all.filter((part): part is ToolPart => part.type === "tool");
  const point: ResumePoint = {
    step: 0,
    isReset: false,
    calls: [],
    unjudged: [],
    asked: [],
    verdicts: [],
    turnStart: 0,
    ending: null,
  };
  const { step: open } = fold.open();
  const { steps, approvals } = fold.facts();
  const isAnswer = ({ step, finishReason }: StepFacts) =>
    finishReason === "content-filter" || !parts.some((part) => part.step === step);
  const earlier = steps.slice(0, -1).filter(isAnswer).at(-1);
  if (earlier !== undefined) point.turnStart = earlier.step + 1;
  if (open !== null) return { ...point, step: open, isReset: true };
  const last = steps.at(-1);
  const isUnread = all.some((part) => readSteering(part)?.state === "undelivered");
  point.ending = brokenEnding(last?.finishReason, { isUnread });
  if (last === undefined) return point;
  point.step = last.step + 1;
  const own = parts.filter((part) => part.step === last.step);
  const isOver = point.ending !== null || isAnswer(last);
  point.ending ??= isOver ? wholeEnding(last.finishReason) : null;
  const journal = new Map(openCalls.map((record) => [record.toolCallId, record]));
  for (const part of own.filter(({ state }) => state === "call")) {
    const record = journal.get(part.toolCallId);
    const approval = approvals.findLast(({ toolCallId }) => toolCallId === part.toolCallId);
    const decision = decisions.find(({ approvalId }) => approvalId === approval?.approvalId);
    const mayBegin = record?.state === "awaiting_approval" || record?.state === "ready";
    if (!isOver && mayBegin && approval !== undefined && decision !== undefined) {
      const decided = decide({ record, approval }, decision, tools);
      const isReady = decided.kind === "ready";
      point.verdicts.push({ events: decided.events, record: isReady ? null : decided.record });
      if (isReady) point.calls.push(decided.call);
      continue;
    }
    if (!isOver && record?.state === "awaiting_approval") {
      point.asked.push(record);
      continue;
    }
    const ready = record === undefined ? null : readyCall(record, tools);
    const shown = decision === undefined ? {} : stateOf(decision);
    if (ready === null || isOver) point.verdicts.push(verdictOn(part, record, tools));
    else (mayBegin ? point.unjudged : point.calls).push({ ...ready, ...shown });
  }
  return point;
}

/** Calls of one step. */
export interface EarlierCalls {
  /** As the `RepeatDetector` takes them. */
  keys: string[];
  /** None of them could be used. */
  isInvalid: boolean;
}

/** The calls of each step from `turnStart` on: a wait must not make a run forget that its model goes in circles. */
export function earlierCalls(
  fold: Fold,
  { step: next, turnStart }: Pick<ResumePoint, "step" | "turnStart">,
  tools: ToolSet,
): EarlierCalls[] {
  const all = fold.message().parts.filter((part): part is ToolPart =>
    part.type === "tool" && part.state !== "streaming"
  );
  const steps: EarlierCalls[] = [];
  for (let step = turnStart; step < next; step++) {
    const calls = all.filter((part) => part.step === step);
    const looked = calls.filter(({ input, toolName }) =>
      input === undefined || tools.find(toolName)?.polling !== true
    );
    steps.push({
      keys: looked.map(repeatKey),
      isInvalid: calls.length > 0 && calls.every(({ input }) => input === undefined),
    });
  }
  return steps;
}

function wholeEnding(reason: FinishReason | undefined): Ending {
  const said = reason === undefined || reason === "error" || reason === "aborted" ? "stop" : reason;
  return { kind: "finish", finishReason: said };
}

/** The end that a former owner had begun to write when it was lost, as far as it is known; null when it had not. */
function brokenEnding(
  reason: FinishReason | undefined,
  { isUnread }: { isUnread: boolean },
): Ending | null {
  if (reason === "aborted") return { kind: "abort", reason: "The run was stopped" };
  if (reason !== "error" && !isUnread) return null;
  const errorText = "The run failed, and its replica was lost before it said why";
  return { kind: "error", errorText, code: "interrupted", retryable: true };
}

/** Rebuilds the run's message from its log; gives the number that its next part may have. */
export function replayInto(fold: Fold, events: readonly HubEvent[]): number {
  let nextPart = 0;
  for (const event of events) {
    fold.apply(event);
    const id = event.type === "source-url" ? event.sourceId : "id" in event ? event.id : undefined;
    const number = /^p(\d+)$/.exec(id ?? "")?.[1];
    if (number !== undefined) nextPart = Math.max(nextPart, Number(number) + 1);
  }
  return nextPart;
}

/** The call as it can run now; null when it must not, or its tool is gone. */
function readyCall(record: ToolCallRecord, tools: ToolSet): ReadyCall | null {
  const tool = tools.find(record.toolName);
  if (tool === undefined || record.input === null) return null;
  const mayRun = record.state === "ready" ||
    record.state === "started" && record.effect !== "effect" && isAsCalled(record, tool);
  const { input } = record;
  return mayRun ? { kind: "ready", tool, input, record } : null;
}

/** Whether a tool is the one that a call was judged by. Calls from before that was written down have its effect alone. */
function isAsCalled({ defHash, effect }: ToolCallRecord, tool: Tool): boolean {
  return defHash === undefined ? effect === tool.effect : defHash === definitionHash(tool);
}

function verdictOn(
  { toolCallId, toolName }: ToolPart,
  record: ToolCallRecord | undefined,
  tools: ToolSet,
): ResumePoint["verdicts"][number] {
  const tool = tools.find(toolName);
  const isInDoubt = record?.state === "started" &&
    (record.effect !== "pure" || tool !== undefined && !isAsCalled(record, tool));
  const errorText = isInDoubt
    ? OUTCOME_UNKNOWN
    : `Not executed: interrupted, and ${toolName} cannot be run here`;
  return {
    events: [{ type: "tool-output-error", toolCallId, errorText }],
    record: record === undefined
      ? null
      : { ...record, state: isInDoubt ? "unknown" : "cancelled", errorText },
  };
}
