import type { HubEvent } from "../../core/event.ts";
import { isJsonObject, type JsonObject } from "../../core/json.ts";
import { PROPOSE_PLAN, readPreflight, type ShownPlan } from "../../core/preflight.ts";
import { readQuestion } from "../../core/run_question.ts";
import { type AskedHub, askHub, HubRefusal, postJson } from "../ask_hub.ts";
import { showPreview } from "../show_preview.ts";
import {
  approvalPrompt,
  describePlan,
  NOBODY,
  PLAN_PROMPT,
  QUESTION_PROMPT,
  readAction,
  readAnswer,
  readPlanWord,
} from "./answers.ts";
import { fillIn } from "./forms.ts";
import type { Terminal } from "./terminal.ts";

/** A question to a person about a call. */
type AskedApproval = Extract<HubEvent, { type: "tool-approval-request" }>;

type AskedQuestion = NonNullable<ReturnType<typeof readQuestion>>;

/** What a run's questions need. */
export interface QuestionsOptions {
  hub: AskedHub;
  terminal: Terminal;
  runId: string;
  /** Ends with the run, or with the chat. */
  signal: AbortSignal;
  /** Takes a line that is a command; false when it is none. */
  command(line: string): Promise<boolean>;
}

/** Longer arguments are shown one member a line. */
const MAX_LINE = 80;
const MAX_SHOWN = 2000;

/** Asks a person what a run asks, one question behind the other. */
export class Questions {
  readonly #options: QuestionsOptions;
  readonly #open = new Map<string, AbortController>();
  readonly #plans = new Map<string, ShownPlan>();
  #last: Promise<void> = Promise.resolve();

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** Looks at each event of the run; true for one that is shown here. */
  take(event: HubEvent): boolean {
    const question = event.type === "data" ? readQuestion(event) : null;
    if (question !== null) return this.#takeQuestion(question);
    if (event.type === "tool-approval-response") this.#answered(event.approvalId);
    const plan = event.type === "data" ? readPreflight(event) : null;
    if (plan !== null) this.#plans.set(plan.approvalId, plan);
    if (event.type !== "tool-approval-request") return plan !== null;
    this.#ask(event);
    return true;
  }

  /** Resolves when nothing is asked any more. */
  settled(): Promise<void> {
    return this.#last;
  }

  #takeQuestion(question: AskedQuestion): boolean {
    const { questionId, state } = question;
    if (state === "pending") {
      this.#line(questionId, (signal) => this.#askQuestion(question, signal));
    } else this.#answered(questionId);
    return true;
  }

  #ask(asked: AskedApproval): void {
    const { approvalId, toolName } = asked;
    const plan = toolName === PROPOSE_PLAN ? this.#plans.get(approvalId) : undefined;
    this.#line(
      approvalId,
      (signal) => plan === undefined ? this.#askCall(asked, signal) : this.#askPlan(plan, signal),
    );
  }

  /** Asks when those before it are answered, unless this one is by then. */
  #line(id: string, ask: (signal: AbortSignal) => Promise<void>): void {
    const over = new AbortController();
    this.#open.set(id, over);
    const signal = AbortSignal.any([over.signal, this.#options.signal]);
    const begin = () => signal.aborted ? undefined : ask(signal);
    this.#last = this.#last.then(begin).catch((error: unknown) => {
      if (signal.aborted) return;
      this.#options.terminal.printError(error instanceof Error ? error.message : String(error));
    });
  }

  /** Here, or elsewhere. */
  #answered(approvalId: string): void {
    this.#open.get(approvalId)?.abort();
    this.#open.delete(approvalId);
  }

  async #askCall(asked: AskedApproval, signal: AbortSignal): Promise<void> {
    const { toolName, risk, tainted, tier = "ask", approvalId } = asked;
    const read = tainted === undefined ? "" : `, after reading words of ${tainted.join(", ")}`;
    this.#options.terminal.printError(
      `${toolName} wants to run (risk ${risk}${read}): ${shownCall(asked)}`,
    );
    const answer =
      await this.#until(approvalPrompt(tier), signal, (line) => readAnswer(line, tier)) ?? NOBODY;
    await this.#send(`approvals/${encodeURIComponent(approvalId)}`, { ...answer });
  }

  async #askPlan(plan: ShownPlan, signal: AbortSignal): Promise<void> {
    const proposed = plan.steps.map(({ tool, purpose }) => ({ tool, purpose, isSkipped: false }));
    let steps = proposed;
    for (;;) {
      this.#options.terminal.printError(describePlan(plan, steps));
      const said = await this.#until(PLAN_PROMPT, signal, (line) => readPlanWord(line, steps)) ??
        { kind: "answer" as const, answer: NOBODY };
      if (said.kind === "answer") {
        const isChanged = said.answer.approved && steps !== proposed;
        const changes = isChanged ? changesOf(steps) : {};
        return await this.#send("preflight", { ...said.answer, ...changes });
      }
      steps = said.steps;
    }
  }

  async #askQuestion(question: AskedQuestion, signal: AbortSignal): Promise<void> {
    const { questionId, source, message, kind, asked } = question;
    const { terminal } = this.#options;
    const path = `questions/${encodeURIComponent(questionId)}`;
    terminal.printError(`${source} asks: ${message.replaceAll("\n", "\n  | ")}`);
    const { schema, ...others } = asked;
    if (Object.keys(others).length > 0) terminal.printError(JSON.stringify(others));
    for (;;) {
      const action = await this.#until(QUESTION_PROMPT, signal, readAction) ?? "cancel";
      const isForm = action === "accept" && kind === "form" && isJsonObject(schema);
      const content = isForm
        ? await fillIn(schema, (prompt, { isSecret }) => terminal.next(prompt, signal, isSecret))
        : null;
      if (isForm && content === null) return await this.#send(path, { action: "cancel" });
      try {
        return await this.#send(path, { action, ...(content === null ? {} : { content }) });
      } catch (error) {
        if (!(error instanceof HubRefusal) || error.status !== 400) throw error;
        terminal.printError(error.message);
      }
    }
  }

  /** Asks until a line can be read, or is a command that ends the question; null where the input has ended. */
  async #until<T>(
    prompt: string,
    signal: AbortSignal,
    read: (line: string) => T | null,
  ): Promise<T | null> {
    const { terminal, command } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const line = await terminal.next(prompt, signal);
      if (line === null) return null;
      const answer = read(line);
      if (answer !== null) return answer;
      if (!await command(line)) terminal.printError(`Please answer: ${prompt.replace(/ > $/, "")}`);
    }
  }

  async #send(path: string, answer: JsonObject): Promise<void> {
    const { hub, runId } = this.#options;
    await askHub(hub, `/v1/runs/${encodeURIComponent(runId)}/${path}`, postJson(answer));
  }
}

/** What the call would do, where its tool can tell, else its arguments. */
function shownCall({ input, preview }: AskedApproval): string {
  if (preview !== undefined) return ["", ...showPreview(preview)].join("\n  | ");
  const line = JSON.stringify(input);
  const text = line.length > MAX_LINE ? JSON.stringify(input, null, 2) : line;
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}… (cut)` : text;
}

function changesOf(
  steps: readonly { tool: string; purpose: string; isSkipped: boolean }[],
): JsonObject {
  return {
    steps: steps.map(({ tool, purpose }) => ({ tool, purpose })),
    skip: steps.flatMap(({ isSkipped }, at) => isSkipped ? [at + 1] : []),
  };
}
