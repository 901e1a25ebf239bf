import { deriveId } from "../core/derived_id.ts";
import { HubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import type { IdPrefix } from "../core/id.ts";
import { isJsonObject } from "../core/json.ts";
import type { RunBudget } from "../core/run_budget.ts";
import { SUB_AGENTS } from "../core/sub_run_event.ts";
import type { Tool, ToolContext, ToolResult } from "../core/tool.ts";
import { readQuestion } from "../core/run_question.ts";
import { BUDGET_SPENT } from "../inference/run_budget.ts";
import { defineOperation, Type } from "../operations/operation.ts";
import { toTool } from "../operations/to_tool.ts";
import { readMessage } from "../store/messages.ts";
import { readRun } from "../store/runs.ts";
import { keepOutsideSources, readLineage, readRunSpent } from "../store/sub_runs.ts";
import type { FindAgent } from "./create_agents.ts";
import type { FollowOptions } from "./follow_run.ts";
import { awaitRun, describeProgress, lastWords } from "./run_answer.ts";
import type { StartOptions } from "./runnable_agent.ts";
import { startRun } from "./start_run.ts";
import { type StopOptions, stopRun } from "./stop_run.ts";
import { errorOf } from "./stored_facts.ts";
import { untilAnswered } from "./until_answered.ts";

/** What asking agents needs. */
export interface SubAgentsOptions extends StopOptions {
  start: StartOptions;
  follow: FollowOptions;
  findAgent: FindAgent;
}

/** Runs below a run that somebody has asked for, one below the other. */
const MAX_DEPTH = 2;
/** The run that asks bounds it; this is for one without bounds. */
const TIMEOUT_MS = 24 * 3_600_000;
const MAX_PROMPT_CHARS = 200_000;
const MAX_DESCRIPTION_CHARS = 2000;
/** What is wrong on the way to a run below and not with it: it goes on, here or elsewhere. */
const PASSING = ["database_unavailable", "lease_lost", "shutting_down", "overloaded"] as const;

/**
 * Agents as tools of agents: each call is a run of its own, in a session of its own. Called again for the same call, as by
 * whoever takes the calling run over, it goes on with that run.
 */
export class SubAgents {
  readonly #options: SubAgentsOptions;
  /** Runs within a budget ask one after the other: what one has used up counts before the next begins. */
  readonly #turns = new Map<string, Promise<void>>();

  constructor(options: SubAgentsOptions) {
    this.#options = options;
  }

  /** The agent as a tool. */
  toolFor(name: string, description?: string): Tool {
    const operation = defineOperation({
      namespace: SUB_AGENTS,
      name: "ask",
      description: description?.slice(0, MAX_DESCRIPTION_CHARS).toWellFormed() ??
        `Asks the agent ${name} and gives its answer.`,
      input: Type.Object({
        prompt: Type.String({
          minLength: 1,
          maxLength: MAX_PROMPT_CHARS,
          description: "What it is to do. It knows nothing of this conversation",
        }),
      }),
      effect: "idempotent",
      inRunsOnly: true,
      run: () => null,
    });
    return {
      ...toTool(operation),
      name: `${SUB_AGENTS}.${name}`,
      timeoutMs: TIMEOUT_MS,
      execute: async (input, context) => {
        const prompt = isJsonObject(input) ? String(input["prompt"]) : "";
        return await this.#inTurn(context, () => this.#ask({ name, prompt }, context));
      },
    };
  }

  async #inTurn(context: ToolContext, work: () => Promise<ToolResult>): Promise<ToolResult> {
    const { runId, clock } = context;
    if ((context.left?.() ?? null) === null) return await work();
    const before = this.#turns.get(runId);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#turns.set(runId, promise);
    await before;
    try {
      return await work();
    } finally {
      // Behind whoever adds what was used up.
      clock.setTimer(() => {
        if (this.#turns.get(runId) === promise) this.#turns.delete(runId);
        resolve();
      }, 0);
    }
  }

  async #ask(
    { name, prompt }: { name: string; prompt: string },
    context: ToolContext,
  ): Promise<ToolResult> {
    const { start: { db }, follow } = this.#options;
    const { principal: { tenantId }, signal } = context;
    const runId = derivedId("run", context);
    const key = { tenantId, runId };
    signal.throwIfAborted();
    const lost = new AbortController();
    const stop = () => {
      if (isLost(signal.reason)) return lost.abort();
      stopRun({ ...key, reason: "the run that asked was stopped" }, this.#options)
        .catch((error: unknown) =>
          context.log.warn("A sub-agent's run could not be stopped", { runId, error })
        );
    };
    signal.addEventListener("abort", stop, { once: true });
    const patience = { clock: context.clock, signal };
    const insist = <T>(ask: () => Promise<T>) =>
      untilAnswered(ask, { ...patience, passing: PASSING });
    try {
      await untilAnswered(async () => {
        if (await readRun(db, key) === null) await this.#begin({ name, prompt, runId }, context);
      }, patience);
      // It may not have been there yet when this one was stopped.
      if (signal.aborted) stop();
      const tell = (facts: Record<string, string>) =>
        context.progress({ agent: name, runId, ...facts });
      tell({ text: "Begins" });
      const tellEvent = (event: HubEvent) => {
        const text = describeProgress(event);
        if (text === null) return;
        const isAsking = event.type === "tool-approval-request";
        const question = event.type === "data" ? readQuestion(event) : null;
        tell({
          text,
          ...isAsking ? { approvalId: event.approvalId } : {},
          ...question === null ? {} : { questionId: question.questionId },
        });
      };
      const run = await insist(() =>
        awaitRun({ ...key, signal: lost.signal }, { follow, tell: tellEvent })
      );
      if (lost.signal.aborted) throw signal.reason;
      // Before its words are taken: whoever deletes it then has deleted these too, or comes too late.
      await insist(() => keepOutsideSources(db, { tenantId, runId: context.runId, from: runId }));
      const message = run === null
        ? null
        : await insist(() => readMessage(db, { tenantId, messageId: run.messageId }));
      const used = await insist(() => readRunSpent(db, key));
      if (run === null || message === null || used === null) {
        throw new HubError("not_found", `The run ${runId} of the agent ${name} is gone`);
      }
      const { sessionId, status } = run;
      const spent = { runId, sessionId, agent: name, ...used };
      if (status === "completed") {
        const text = lastWords(message) || "(no answer)";
        return { content: [{ type: "text", text }], spent };
      }
      const why = status === "cancelled" ? "its run was stopped" : errorOf(run.error).errorText;
      const text = `The agent ${name} gave no answer: ${why}`;
      return { content: [{ type: "text", text }], isError: true, spent };
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  async #begin(
    { name, prompt, runId }: { name: string; prompt: string; runId: string },
    context: ToolContext,
  ): Promise<void> {
    const { start, findAgent } = this.#options;
    const { principal, principal: { tenantId }, toolCallId } = context;
    const above = await readLineage(start.db, { tenantId, runId: context.runId });
    const line = above.toReversed().join(" asks ");
    if (above.includes(name)) {
      throw new HubError(
        "invalid_request",
        `The agent ${name} waits for this one already (${line}): agents ask nobody in a circle`,
      );
    }
    if (above.length > MAX_DEPTH) {
      throw new HubError(
        "invalid_request",
        `${line}: that is as deep as agents may ask one another, so ${name} was not asked`,
      );
    }
    const budget = context.left?.() ?? null;
    if (budget !== null && !isWorthwhile(budget)) {
      throw new HubError("invalid_request", BUDGET_SPENT);
    }
    const agent = findAgent(name);
    const asking = await readRun(start.db, { tenantId, runId: context.runId });
    const sessionId = derivedId("ses", context);
    const parent = { runId: context.runId, toolCallId };
    await startRun({
      principal,
      requestId: start.ids.next("req"),
      sessionId,
      newSession: {
        title: `${name} for ${context.agent}`,
        metadata: { parentRunId: parent.runId, toolCallId },
      },
      runId,
      parent,
      agent,
      message: {
        clientId: toolCallId,
        parts: [{ type: "text", id: "text-0", text: prompt, state: "done" }],
      },
      budget: budget ?? undefined,
      // Agreed to was that the agent is asked, and not what it does.
      preflight: asking?.preflight ?? undefined,
      handed: start.handed?.get(context.runId) ?? null,
    }, start);
  }
}

/** The id that a repetition of the call finds too. */
function derivedId<P extends IdPrefix>(prefix: P, { runId, toolCallId }: ToolContext) {
  return deriveId(prefix, { runId, name: toolCallId });
}

/** Whether the calling run has lost its owner, and goes on elsewhere: then so do those below it. */
function isLost(reason: unknown): boolean {
  return reason instanceof HubError && reason.code !== "aborted";
}

function isWorthwhile(budget: RunBudget): boolean {
  return Object.values(budget).every((bound) => bound > 0);
}
