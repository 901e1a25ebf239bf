import { createHash } from "node:crypto";
import { canonicalJson, type Json } from "../core/json.ts";
import {
  MAX_ANSWER_INPUT_LENGTH,
  MAX_CALL_INPUT_LENGTH,
  MAX_CALLS_PER_ANSWER,
} from "../core/limits.ts";
import type { ModelFinishReason } from "../core/model.ts";
import { WorkStretch } from "../core/next_turn.ts";
import type { StepCall } from "../core/step_call.ts";
import type { ShownCall, Tool, ToolInputProblem } from "../core/tool.ts";
import type { UIMessage } from "../core/ui_message.ts";
import type { AgentRun, Permission, PermissionRequest } from "./agent_run.ts";
import { definitionHash } from "./definition_hash.ts";
import type { ToolCallRecord, ToolCallStatus } from "./loop_batch.ts";
import { previewCall } from "./preview_call.ts";
import { type RepeatDetector, REPEATS_TO_REFUSE } from "./repeat_detector.ts";
import type { ToolSet } from "./tool_set.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";

/** What the model reads for a call that it keeps making. */
export const REPEATED_CALL =
  "You already made this call 3 times with the same arguments; change approach or answer";

/** Characters of arguments that are judged between two turns of the event loop; a call counts as at least so many. */
const JUDGED_CHARACTERS = 256 * 1024;
const CALL_CHARACTERS = 8 * 1024;

/** A call that may run. */
export interface ReadyCall {
  kind: "ready";
  tool: Tool;
  input: Json;
  record: ToolCallRecord;
  /** The state that whoever approved it was shown. */
  shownState?: string;
}

/** A call that may run when a person says so. */
export interface AskedCall extends Omit<ReadyCall, "kind" | "shownState"> {
  kind: "asked";
  shown: ShownCall | null;
  /** Why a person is asked whatever the policy says: words of others, from here. */
  tainted: string[];
}

/** A call after judgement. `invalid`: its arguments or its tool are not usable. `refused`: usable, and not to run. */
export type JudgedCall =
  | ReadyCall
  | AskedCall
  | { kind: "invalid"; errorText: string; record: ToolCallRecord }
  | { kind: "refused"; denied: boolean; errorText: string; input: Json; record: ToolCallRecord };

/** Calls of one step, judged. */
export interface Judgement {
  calls: JudgedCall[];
  /** How often the latest steps have come in a row; see `RepeatDetector`. */
  repeats: number;
}

/** What the calls are judged by. */
export interface JudgeOptions {
  step: number;
  finishReason: ModelFinishReason;
  tools: ToolSet;
  detector: RepeatDetector;
  /** What the run has written so far. */
  message: UIMessage;
}

type Read =
  | { ok: true; tool: Tool; input: Json }
  | { ok: false; errorText: string };

/** Judges the calls of one answer in call order: tool, arguments, repetition, permission. Never throws. */
export async function judgeCalls(
  run: AgentRun,
  calls: readonly StepCall[],
  options: JudgeOptions,
): Promise<Judgement> {
  const { maxCallsPerAnswer: most = MAX_CALLS_PER_ANSWER } = run.settings;
  const stretch = new WorkStretch(JUDGED_CHARACTERS);
  const read: { call: StepCall; read: Read }[] = [];
  for (const [index, call] of calls.entries()) {
    const isTaken = index < most;
    read.push({
      call,
      read: isTaken ? readCall(run, call, options) : tooMany(calls.length, most),
    });
    await stretch.spend(call.inputText.length + CALL_CHARACTERS);
  }
  const repeats = options.detector.observe(
    read.filter((one) => !one.read.ok || !one.read.tool.polling).map(keyOf),
  );
  const judged: JudgedCall[] = [];
  for (const [index, { call, read: made }] of read.entries()) {
    await stretch.spend(call.inputText.length + CALL_CHARACTERS);
    const record = createRecord(run, call, { index, step: options.step, read: made });
    if (!made.ok) {
      const { errorText } = made;
      judged.push({
        kind: "invalid",
        errorText,
        record: { ...record, state: "failed", errorText },
      });
      continue;
    }
    const { tool, input } = made;
    if (!tool.polling && repeats >= REPEATS_TO_REFUSE) {
      judged.push(refuse(record, { state: "failed", input, errorText: REPEATED_CALL }));
      continue;
    }
    judged.push(await decideOn(run, { tool, input, record }, options.message));
  }
  return { calls: judged, repeats };
}

/**
 * Judges calls again that had not begun when their run was left: by the tools and the rules of now, which may not be those
 * of then. Never throws.
 */
export async function judgeAgain(
  run: AgentRun,
  calls: readonly ReadyCall[],
  message: UIMessage,
): Promise<JudgedCall[]> {
  const judged: JudgedCall[] = [];
  for (const { tool, input, record: left } of calls) {
    const record = { ...left, ...toolFacts({ tool, input }) };
    const checked = left.defHash === record.defHash ? null : tool.validate(input);
    const fits = checked === null ||
      checked.ok && canonicalJson(checked.input) === canonicalJson(input);
    if (fits) judged.push(await decideOn(run, { tool, input, record }, message));
    else judged.push(refuse(record, { state: "failed", input, errorText: describeChange(record) }));
  }
  return judged;
}

function describeChange({ toolName }: ToolCallRecord): string {
  return `Not executed: ${toolName} is not what it was when it was called`;
}

/** Decides whether a call that is usable runs. */
async function decideOn(
  run: AgentRun,
  call: Pick<ReadyCall, "tool" | "input" | "record">,
  message: UIMessage,
): Promise<JudgedCall> {
  const { tool, input, record } = call;
  const { toolCallId, step } = record;
  const permission = await askPermission(run, { toolCallId, step, tool, input, message });
  if (permission.allowed === true) return { kind: "ready", ...call };
  if (permission.allowed === false) {
    return refuse(record, { state: "denied", input, errorText: permission.reason });
  }
  const previewed = await previewCall(run, { tool, input, toolCallId });
  if (!previewed.ok) {
    return refuse(record, { state: "failed", input, errorText: previewed.errorText });
  }
  const { shown } = previewed;
  const { tainted = [] } = permission;
  const asked = { ...record, state: "awaiting_approval" as const };
  return { kind: "asked", tool, input, record: asked, shown, tainted };
}

function refuse(
  record: ToolCallRecord,
  verdict: { state: ToolCallStatus; input: Json; errorText: string },
): JudgedCall {
  const { state, input, errorText } = verdict;
  const denied = state === "denied";
  return { kind: "refused", denied, errorText, input, record: { ...record, state, errorText } };
}

function tooMany(calls: number, most: number): Read {
  const errorText =
    `Not executed: the answer makes ${calls} calls, and the first ${most} of an answer are taken. ` +
    "Make the others in a later answer";
  return { ok: false, errorText };
}

function readCall(run: AgentRun, call: StepCall, options: JudgeOptions): Read {
  const { finishReason, tools } = options;
  if (finishReason === "content-filter") {
    return { ok: false, errorText: "Not executed: the answer was stopped by a content filter" };
  }
  const tool = tools.find(call.wireName);
  if (tool === undefined) return { ok: false, errorText: tools.describeUnknown(call.wireName) };
  if (call.inputLength > call.inputText.length) return { ok: false, errorText: describeCut(call) };
  const parsed = run.parseArguments(call.inputText);
  // An answer that ran into a limit may have cut its arguments: only text that is whole as it stands counts.
  const mayBeCut = finishReason === "length" || finishReason === "unknown";
  const isWhole = parsed.ok && parsed.repairs.length === 0 && call.inputText.trim() !== "";
  if (mayBeCut && !isWhole) {
    return {
      ok: false,
      errorText: finishReason === "length"
        ? "Not executed: the answer reached its length limit within these arguments. Call again with shorter ones"
        : "Not executed: the answer ended before these arguments were complete. Call again",
    };
  }
  if (!parsed.ok) return { ok: false, errorText: `${parsed.problem}${quote(call.inputText)}` };
  const checked = tool.validate(wellFormedJson(parsed.input));
  if (checked.ok) return { ok: true, tool, input: checked.input };
  return { ok: false, errorText: describeProblems(call.wireName, checked.problems) };
}

function describeCut({ inputLength }: StepCall): string {
  const [whose, most] = inputLength > MAX_CALL_INPUT_LENGTH
    ? ["of a call", MAX_CALL_INPUT_LENGTH]
    : ["of all calls of an answer", MAX_ANSWER_INPUT_LENGTH];
  return `Not executed: the arguments have ${inputLength} characters, those ${whose} may have ` +
    `at most ${most}. Call again with shorter ones, in an answer of their own`;
}

function describeProblems(name: string, problems: readonly ToolInputProblem[]): string {
  const lines = problems.map(({ path, wanted, got }) =>
    `- ${path === "" ? "the arguments" : path}: wanted ${wanted}, got ${got}`
  );
  return [`The arguments of ${name} do not fit its schema:`, ...lines].join("\n");
}

function quote(text: string): string {
  const shown = wellFormedText(text.length > 200 ? `${text.slice(0, 200)}…` : text);
  return `. What came: ${shown}`;
}

/** What the `RepeatDetector` knows a call by. */
export function repeatKey(
  { toolName, input, inputText }: { toolName: string; input?: Json; inputText?: string },
): string {
  return `${toolName} ${input === undefined ? inputText ?? "" : canonicalJson(input)}`;
}

function keyOf({ call, read }: { call: StepCall; read: Read }): string {
  const { toolName } = call;
  const inputText = wellFormedText(call.inputText);
  return repeatKey(read.ok ? { toolName, input: read.input } : { toolName, inputText });
}

async function askPermission(
  run: AgentRun,
  request: PermissionRequest,
): Promise<Permission> {
  if (run.permit === undefined) return { allowed: true };
  try {
    return await run.permit(request);
  } catch (error) {
    run.log.error("Permission for a tool call could not be decided", {
      toolCallId: request.toolCallId,
      tool: request.tool.name,
      error,
    });
    return { allowed: false, reason: "Not executed: permission for it could not be decided" };
  }
}

function createRecord(
  run: AgentRun,
  call: StepCall,
  { index, step, read }: { index: number; step: number; read: Read },
): ToolCallRecord {
  const { toolCallId, toolName, providerCallId } = call;
  const inputText = wellFormedText(call.inputText);
  const hash = createHash("sha256").update(read.ok ? canonicalJson(read.input) : inputText);
  return {
    toolCallId,
    step,
    index,
    toolName,
    input: read.ok ? read.input : null,
    inputText,
    argsHash: hash.digest("hex"),
    ...(read.ok ? toolFacts(read) : { effect: "pure" }),
    idempotencyKey: `${run.runId}:${toolCallId}`,
    state: "ready",
    ...(providerCallId === "" ? {} : { providerCallId: wellFormedText(providerCallId) }),
  };
}

/** What the journal keeps of the tool that a call was judged by. */
function toolFacts(
  { tool, input }: { tool: Tool; input: Json },
): Pick<ToolCallRecord, "effect" | "outside"> & { defHash: string } {
  const { effect, outside } = tool;
  const defHash = definitionHash(tool);
  if (outside === undefined) return { effect, defHash };
  return { effect, defHash, outside: outside.sourceOf?.(input) ?? outside.source };
}
