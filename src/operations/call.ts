import type { Timer } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { isInDoubt, OutcomeUnknown } from "../core/outcome_unknown.ts";
import { ABORT_GRACE_MS, MAX_TOOL_RESULT_BYTES, MAX_TOOL_RESULT_LINES } from "../core/limits.ts";
import { PausableTimer } from "../core/pausable_timer.ts";
import type { SubRun } from "../core/sub_run_event.ts";
import type { Tool, ToolContext, ToolOutput, ToolResult } from "../core/tool.ts";
import { boundResult } from "./bound_result.ts";
import { keepFiles, type SaveFile } from "./keep_files.ts";
import { toModelView, toToolOutput } from "./tool_output.ts";

/** Bounds of a call. */
export interface CallLimits {
  /** UTF-8 bytes of text a model reads of one result. */
  resultBytes: number;
  resultLines: number;
  /** Time a stopped tool gets to end by itself. */
  graceMs: number;
}

/** The bounds of `core/limits.ts`. */
export const DEFAULT_CALL_LIMITS: Readonly<CallLimits> = Object.freeze({
  resultBytes: MAX_TOOL_RESULT_BYTES,
  resultLines: MAX_TOOL_RESULT_LINES,
  graceMs: ABORT_GRACE_MS,
});

/** Keeps the whole text of a result that was cut; gives the reference `hub.read_result` takes. */
export type SaveResult = (text: string, context: ToolContext) => Promise<string>;

/** What a call needs beside the tool and its input. */
export interface CallOptions {
  context: ToolContext;
  limits?: Partial<CallLimits>;
  saveResult?: SaveResult;
  /** Left out, files are told by kind and size; `pass`: they stay in the output, which is not stored then. */
  files?: SaveFile | "pass";
}

/** How long a call took, and the characters a model reads of it. */
export interface CallMeasure {
  durationMs: number;
  chars: number;
}

/** What became of a call. `output` stays beside a failure when the tool gave one; `ref` leads to text that was cut. */
export type ToolOutcome =
  | {
    ok: true;
    status: "succeeded";
    output: ToolOutput;
    ref: string | null;
    /** See `ToolResult`. */
    original?: JsonObject;
    spent?: SubRun;
  } & CallMeasure
  | {
    ok: false;
    status: "failed" | "timed-out" | "aborted";
    errorText: string;
    output?: ToolOutput;
    original?: JsonObject;
    spent?: SubRun;
    /** It may have done its work. */
    inDoubt?: true;
    /** What the tool has thrown, for whoever knows more of it. */
    error?: unknown;
  } & CallMeasure;

type Stop = "timed-out" | "aborted";
type Settled = { result: ToolResult } | { error: unknown };
type Ending = { settled: Settled | null; stop: Stop | null };

/**
 * Runs a tool with a validated input: the one way for operations and MCP tools, loop and registry. Keeps the tool's
 * deadline and the caller's signal; a tool that ends within the grace after a stop keeps a success, one that does not
 * is abandoned: its late result or error is dropped. Bounds the result, measures. Never rejects.
 */
export async function callTool(
  tool: Tool,
  input: Json,
  options: CallOptions,
): Promise<ToolOutcome> {
  const { clock, log } = options.context;
  const limits = { ...DEFAULT_CALL_LIMITS, ...options.limits };
  const startedMs = clock.monotonic();
  const ending = await untilEnd(tool, input, { context: options.context, graceMs: limits.graceMs });
  const durationMs = Math.round(clock.monotonic() - startedMs);
  if (ending.settled === null) {
    log.warn("Tool ignored its signal and was abandoned", { tool: tool.name, durationMs });
  }
  return await toOutcome(ending, { tool, options, limits, durationMs });
}

async function untilEnd(
  tool: Tool,
  input: Json,
  { context, graceMs }: { context: ToolContext; graceMs: number },
): Promise<Ending> {
  const { clock, signal, ask } = context;
  if (signal.aborted) return { settled: { error: signal.reason }, stop: "aborted" };
  const controller = new AbortController();
  const { promise, resolve } = Promise.withResolvers<Ending>();
  let live = true;
  let stop: Stop | null = null;
  let grace: Timer | null = null;
  const end = (ending: Ending) => {
    live = false;
    limit.end();
    clock.clearTimer(grace);
    signal.removeEventListener("abort", onAbort);
    resolve(ending);
  };
  const halt = (kind: Stop, reason: unknown) => {
    if (stop !== null) return;
    stop = kind;
    limit.end();
    grace = clock.setTimer(() => end({ settled: null, stop: kind }), graceMs);
    controller.abort(reason);
  };
  const onAbort = () => halt("aborted", signal.reason);
  const onLate = () => {
    const late = describeStop(tool, "timed-out");
    halt("timed-out", new HubError("aborted", late, { cause: new OutcomeUnknown(late) }));
  };
  const limit = new PausableTimer(clock, { ms: tool.timeoutMs, onLate });
  signal.addEventListener("abort", onAbort, { once: true });
  void start(tool, input, {
    ...context,
    signal: controller.signal,
    progress: (data) => {
      if (live) context.progress(data);
    },
    ...(ask === undefined
      ? {}
      : { ask: (question, asking) => limit.pausedFor(() => ask(question, asking)) }),
  }).then((settled) => end({ settled, stop }));
  return await promise;
}

/** Never rejects, so that a late failure of an abandoned tool is no unhandled rejection. */
async function start(tool: Tool, input: Json, context: ToolContext): Promise<Settled> {
  try {
    return { result: await tool.execute(input, context) };
  } catch (error) {
    return { error };
  }
}

interface OutcomeFacts {
  tool: Tool;
  options: CallOptions;
  limits: CallLimits;
  durationMs: number;
}

async function toOutcome(ending: Ending, facts: OutcomeFacts): Promise<ToolOutcome> {
  const { settled } = ending;
  const spent = settled !== null && "result" in settled ? settled.result?.spent : undefined;
  const outcome = await withoutSpent(ending, facts);
  return spent === undefined ? outcome : { ...outcome, spent };
}

async function withoutSpent({ settled, stop }: Ending, facts: OutcomeFacts): Promise<ToolOutcome> {
  const { tool, durationMs } = facts;
  if (settled !== null && "result" in settled) {
    if (!Array.isArray(settled.result?.content)) {
      return failure(stop ?? "failed", `The tool ${tool.name} gave back no result`, durationMs);
    }
    const { original, spent: _, ...given } = settled.result;
    const passed = original === undefined ? {} : { original };
    const content = await keepFiles(given.content, { ...facts.options, tool: tool.name });
    const { result, ref } = await bound({ ...given, content }, facts);
    const output = toToolOutput(result);
    const { text } = toModelView(output);
    if (result.isError !== true) {
      const chars = text.length;
      return { ok: true, status: "succeeded", output, ref, ...passed, durationMs, chars };
    }
    if (stop === null) {
      const errorText = text === "" ? `The tool ${tool.name} failed without a reason` : text;
      return { ...failure("failed", errorText, durationMs), output, ...passed };
    }
  }
  if (stop !== null) {
    const doubt = stop === "timed-out" ? { inDoubt: true as const } : {};
    return { ...failure(stop, describeStop(tool, stop), durationMs), ...doubt };
  }
  const error = settled !== null && "error" in settled ? settled.error : null;
  const { result } = await bound(
    { content: [{ type: "text", text: describeError(tool, error) }], isError: true },
    facts,
  );
  const { text: errorText } = toModelView(toToolOutput(result));
  return {
    ...failure("failed", errorText, durationMs),
    ...error === null ? {} : { error },
    ...isInDoubt(error) ? { inDoubt: true } : {},
  };
}

function failure(status: "failed" | Stop, errorText: string, durationMs: number) {
  return { ok: false as const, status, errorText, durationMs, chars: errorText.length };
}

/** A result that cannot be kept is still worth its head and tail. */
async function bound(result: ToolResult, { tool, options, limits }: OutcomeFacts) {
  const { context, saveResult } = options;
  const bounds = { maxBytes: limits.resultBytes, maxLines: limits.resultLines };
  if (saveResult === undefined) return await boundResult(result, bounds);
  try {
    const saveText = (text: string) => saveResult(text, context);
    return await boundResult(result, { ...bounds, saveText });
  } catch (error) {
    context.log.error("A long tool result could not be kept", { tool: tool.name, error });
    return await boundResult(result, bounds);
  }
}

function describeStop(tool: Tool, stop: Stop): string {
  return stop === "aborted"
    ? `The tool ${tool.name} was stopped; do not assume that it did its work`
    : `The tool ${tool.name} did not end within ${tool.timeoutMs} ms; do not assume that it did its work`;
}

function describeError(tool: Tool, error: unknown): string {
  if (error instanceof Error) return error.message === "" ? error.name : error.message;
  return typeof error === "string" && error !== ""
    ? error
    : `The tool ${tool.name} failed without a reason`;
}
