import type { HubEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { ToolContext } from "../core/tool.ts";
import type { AgentRun, ToolOutcome } from "./agent_run.ts";
import type { ReadyCall } from "./judge_calls.ts";
import type { ToolCallRecord } from "./loop_batch.ts";
import { endToolSpan, startToolSpan } from "./tool_span.ts";
import { wellFormedJson, wellFormedText } from "../core/well_formed.ts";

/** Progress reports kept while nobody takes them; older ones give way. */
const MAX_PROGRESS = 256;

/** What happened since the last look. */
export interface ToolNews {
  events: HubEvent[];
  calls: ToolCallRecord[];
}

interface Running {
  call: ReadyCall;
  controller: AbortController;
}

/** Runs tool calls side by side and keeps what they report until somebody takes it. */
export class ToolRunner {
  readonly #run: AgentRun;
  readonly #running = new Map<string, Running>();
  readonly #onAbort = () => {
    this.#stopAll();
    this.#notify();
  };
  #news: ToolNews = { events: [], calls: [] };
  #progress: HubEvent[] = [];
  #wake: (() => void) | null = null;

  constructor(run: AgentRun) {
    this.#run = run;
    run.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Calls that have not ended. */
  get size(): number {
    return this.#running.size;
  }

  /** Starts a call whose record is durable as `started`. */
  start(call: ReadyCall): void {
    const controller = new AbortController();
    this.#running.set(call.record.toolCallId, { call, controller });
    if (this.#run.signal.aborted) controller.abort(this.#run.signal.reason);
    this.#execute(call, controller.signal);
  }

  /** Everything since the last time. */
  take(): ToolNews {
    const { events, calls } = this.#news;
    const taken = { events: [...this.#progress, ...events], calls };
    this.#news = { events: [], calls: [] };
    this.#progress = [];
    return taken;
  }

  /** Resolves when there is news, or the run is stopped, or `untilMs` milliseconds from now are over. */
  async change(untilMs?: number): Promise<void> {
    if (this.#news.events.length > 0 || this.#progress.length > 0) return;
    if (untilMs === undefined && this.#run.signal.aborted) return;
    const { clock } = this.#run;
    const woken = new Promise<void>((resolve) => this.#wake = resolve);
    const timer = untilMs === undefined
      ? null
      : clock.setTimer(() => this.#notify(), Math.max(0, untilMs));
    await woken;
    if (timer !== null) clock.clearTimer(timer);
  }

  /** Gives up on the calls that have not ended; what they still report is dropped. */
  abandon(): ReadyCall[] {
    const left = [...this.#running.values()].map(({ call }) => call);
    this.#stopAll();
    this.#running.clear();
    return left;
  }

  /** Stops whatever still runs and listens no more. */
  close(): void {
    this.#run.signal.removeEventListener("abort", this.#onAbort);
    this.abandon();
  }

  async #execute(call: ReadyCall, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#run;
    const { toolCallId, toolName } = call.record;
    const startedMs = clock.monotonic();
    const span = startToolSpan(this.#run, call);
    let outcome: ToolOutcome;
    try {
      // A copy: a tool that changes its input must not change what the log says it was.
      const input = structuredClone(call.input);
      const context = this.#contextOf(call, signal);
      outcome = toStorable(await this.#run.executeTool(call.tool, input, context));
    } catch (error) {
      log.error("A tool could not be executed", { toolCallId, tool: toolName, error });
      const reason = error instanceof Error && error.message !== "" ? error.message : "unknown";
      outcome = toStorable({ ok: false, errorText: `The tool ${toolName} failed: ${reason}` });
    }
    if (span !== null) endToolSpan(span, { outcome, clock, stopped: signal.aborted });
    if (!this.#running.delete(toolCallId)) return;
    const durationMs = Math.round(clock.monotonic() - startedMs);
    this.#report(call, { outcome, durationMs });
    this.#notify();
  }

  #report(call: ReadyCall, end: { outcome: ToolOutcome; durationMs: number }): void {
    const { toolCallId } = call.record;
    const { outcome, durationMs } = end;
    if (outcome.ok) {
      const { output } = outcome;
      this.#news.events.push({ type: "tool-output-available", toolCallId, output });
      this.#news.calls.push({ ...call.record, state: "succeeded", output, durationMs });
      return;
    }
    if (this.#run.signal.aborted) {
      const stopped = stoppedCall(call);
      this.#news.events.push(stopped.event);
      this.#news.calls.push({ ...stopped.record, durationMs });
      return;
    }
    const { errorText } = outcome;
    const output = outcome.output === undefined ? {} : { output: outcome.output };
    this.#news.events.push({ type: "tool-output-error", toolCallId, errorText });
    this.#news.calls.push({ ...call.record, state: "failed", errorText, durationMs, ...output });
  }

  #contextOf(call: ReadyCall, signal: AbortSignal): ToolContext {
    const { clock, log, principal, sessionId, runId, settings } = this.#run;
    const { toolCallId, idempotencyKey, toolName } = call.record;
    return {
      signal,
      clock,
      log: log.with({ toolCallId, tool: toolName }),
      principal,
      sessionId,
      runId,
      toolCallId,
      agent: settings.name,
      idempotencyKey,
      progress: (data) => this.#takeProgress(toolCallId, data),
    };
  }

  #takeProgress(toolCallId: string, data: Json): void {
    if (!this.#running.has(toolCallId)) return;
    this.#progress.push({ type: "data", name: "progress", id: toolCallId, data, transient: true });
    if (this.#progress.length > MAX_PROGRESS) this.#progress.shift();
    this.#notify();
  }

  #stopAll(): void {
    const reason = this.#run.signal.reason ?? new Error("The result is not wanted any more");
    for (const { controller } of this.#running.values()) controller.abort(reason);
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}

/** The outcome without what `jsonb` and providers refuse. Throws for a value that is no JSON. */
function toStorable(outcome: ToolOutcome): ToolOutcome {
  if (outcome.ok) return { ok: true, output: wellFormedJson(outcome.output) };
  const errorText = wellFormedText(outcome.errorText);
  if (outcome.output === undefined) return { ok: false, errorText };
  return { ok: false, errorText, output: wellFormedJson(outcome.output) };
}

/** A started call that was stopped. Only a pure tool is known to have done nothing. */
export function stoppedCall(
  call: Pick<ReadyCall, "record">,
): { event: HubEvent; record: ToolCallRecord } {
  const errorText = "aborted";
  const state = call.record.effect === "pure" ? "cancelled" : "unknown";
  return {
    event: { type: "tool-output-error", toolCallId: call.record.toolCallId, errorText },
    record: { ...call.record, state, errorText },
  };
}

/** A call that never started. */
export function cancelledCall(
  call: Pick<ReadyCall, "record">,
): { event: HubEvent; record: ToolCallRecord } {
  const { event, record } = stoppedCall(call);
  return { event, record: { ...record, state: "cancelled" } };
}
