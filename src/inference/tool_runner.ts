import type { HubEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { questionEvent } from "../core/run_question.ts";
import { samplingEvent } from "../core/sampling_event.ts";
import { subRunEvent } from "../core/sub_run_event.ts";
import type { ToolAnswer, ToolContext, ToolQuestion } from "../core/tool.ts";
import type { AgentRun, Questions, ToolOutcome } from "./agent_run.ts";
import { toAnswer, toRunQuestion, withUnanswered } from "./call_questions.ts";
import type { ReadyCall } from "./judge_calls.ts";
import type { ToolCallRecord } from "./loop_batch.ts";
import type { BudgetWatch } from "./run_budget.ts";
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
  /** What nobody has answered in time. */
  unanswered: string[];
}

/** Runs tool calls side by side and keeps what they report until somebody takes it. */
export class ToolRunner {
  readonly #run: AgentRun;
  readonly #budgets: BudgetWatch;
  readonly #running = new Map<string, Running>();
  readonly #onAbort = () => {
    this.#stopAll();
    this.#notify();
  };
  #news: ToolNews = { events: [], calls: [] };
  #progress: HubEvent[] = [];
  #wake: (() => void) | null = null;
  #isClosed = false;

  constructor(run: AgentRun, budgets: BudgetWatch) {
    this.#run = run;
    this.#budgets = budgets;
    run.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Calls that have not ended. */
  get size(): number {
    return this.#running.size;
  }

  /** Starts a call whose record is durable as `started`. */
  start(call: ReadyCall): void {
    const controller = new AbortController();
    this.#running.set(call.record.toolCallId, { call, controller, unanswered: [] });
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
    this.#isClosed = true;
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
    const running = this.#running.get(toolCallId);
    if (running === undefined) return;
    this.#running.delete(toolCallId);
    running.controller.abort(new Error("The call is over"));
    outcome = withUnanswered(outcome, running.unanswered);
    const durationMs = Math.round(clock.monotonic() - startedMs);
    this.#report(call, { outcome, durationMs });
    this.#notify();
  }

  #report(call: ReadyCall, end: { outcome: ToolOutcome; durationMs: number }): void {
    const { toolCallId } = call.record;
    const { outcome, durationMs } = end;
    if (outcome.spent !== undefined) {
      this.#news.events.push(subRunEvent(toolCallId, outcome.spent));
    }
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
    const isUnknown = outcome.inDoubt === true && call.record.effect === "effect";
    const state = isUnknown ? "unknown" : "failed";
    this.#news.events.push({ type: "tool-output-error", toolCallId, errorText });
    this.#news.calls.push({ ...call.record, state, errorText, durationMs, ...output });
  }

  #contextOf(call: ReadyCall, signal: AbortSignal): ToolContext {
    const { clock, log, principal, sessionId, runId, settings } = this.#run;
    const { toolCallId, idempotencyKey, toolName } = call.record;
    const { questions } = this.#run;
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
      shownState: call.shownState,
      budget: {
        fits: (tokens) => this.#budgets.fits(tokens, this.#news.events),
        book: (used) => {
          const event = samplingEvent({ toolCallId, ...used });
          if (this.#isClosed) return this.#budgets.bookLate(event);
          this.#news.events.push(event);
          this.#notify();
        },
      },
      left: () => this.#budgets.left(this.#news.events),
      progress: (data) => this.#takeProgress(toolCallId, data),
      ...questions === undefined ? {} : {
        ask: (question, asking) =>
          this.#ask(questions, { toolCallId, question, signal: AbortSignal.any([signal, asking]) }),
      },
    };
  }

  /** Asks people, and waits for what becomes of it; the call goes on with that. */
  async #ask(
    questions: Questions,
    { toolCallId, question, signal }: {
      toolCallId: string;
      question: ToolQuestion;
      signal: AbortSignal;
    },
  ): Promise<ToolAnswer> {
    const asked = toRunQuestion(question, { toolCallId, run: this.#run, questions });
    if (signal.aborted || !this.#running.has(toolCallId)) return { action: "cancel" };
    this.#news.events.push(questionEvent(asked, "pending"));
    this.#notify();
    const given = await questions.answerTo(asked.questionId, signal);
    const running = this.#running.get(toolCallId);
    // The end of a call closes what it has asked.
    if (running === undefined) return { action: "cancel" };
    if (given.state === "expired") running.unanswered.push(asked.message);
    this.#news.events.push(questionEvent(asked, given.state));
    this.#notify();
    return toAnswer(given);
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
  const spent = outcome.spent === undefined ? {} : { spent: outcome.spent };
  if (outcome.ok) return { ok: true, output: wellFormedJson(outcome.output), ...spent };
  const errorText = wellFormedText(outcome.errorText);
  const output = outcome.output === undefined ? {} : { output: wellFormedJson(outcome.output) };
  const doubt = outcome.inDoubt === true ? { inDoubt: true as const } : {};
  return { ok: false, errorText, ...output, ...doubt, ...spent };
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
