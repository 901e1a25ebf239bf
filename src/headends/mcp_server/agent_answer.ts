import { type AnswerFormat, readAnswer } from "../../core/answer_format.ts";
import { HubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import type { RunBudget } from "../../core/run_budget.ts";
import { eventsOf } from "../../http/routes/runs.ts";
import type { FollowOptions } from "../../run/follow_run.ts";
import { awaitRun, describeProgress, lastWords } from "../../run/run_answer.ts";
import type { RunnableAgent, StartOptions } from "../../run/runnable_agent.ts";
import { startRun } from "../../run/start_run.ts";
import type { StopOptions } from "../../run/stop_run.ts";
import { stopWhenLeft } from "../../run/stop_when_left.ts";
import { errorOf } from "../../run/stored_facts.ts";
import { readMessage } from "../../store/messages.ts";
import type { StoredRun } from "../../store/runs.ts";
import type { ToolCaller } from "./served_tool.ts";

/** What runs over MCP need. */
export interface AgentRunsOptions extends StopOptions {
  start: StartOptions;
  follow: FollowOptions;
  /** Whether the hub ends: then runs go on elsewhere, whoever asked for them. */
  isStopping(): boolean;
}

/** What a run has answered. */
export interface AgentAnswer {
  runId: string;
  text: string;
  /** What was asked for as JSON. */
  value?: Json;
}

const FOREVER = new AbortController().signal;

/**
 * Says something to an agent in a session and waits for the end of the run, which is stored like any other. A cancelled
 * call stops its run. Throws what the run has failed with.
 */
export async function askAgent(
  asked: {
    agent: RunnableAgent;
    sessionId: string;
    /** Whether the session is made with the run. */
    isNew: boolean;
    prompt: string;
    format: AnswerFormat | null;
    budget: RunBudget | undefined;
  },
  caller: ToolCaller,
  options: AgentRunsOptions,
): Promise<AgentAnswer> {
  const { principal, requestId, span, signal, handed = null } = caller;
  const { tenantId } = principal;
  signal.throwIfAborted();
  const started = await startRun({
    principal,
    requestId,
    span,
    sessionId: asked.sessionId,
    ...asked.isNew ? { newSession: {} } : {},
    agent: asked.agent,
    format: asked.format,
    budget: asked.budget,
    handed,
    message: {
      clientId: null,
      parts: [{ type: "text", id: "text-0", text: asked.prompt, state: "done" }],
    },
  }, options.start);
  const { runId } = started;
  const reason = "cancelled by the MCP client";
  const release = stopWhenLeft({ tenantId, runId, signal, reason }, {
    ...options,
    log: options.start.log,
  });
  try {
    const run = await awaitRun({ tenantId, runId, signal: FOREVER }, {
      follow: options.follow,
      first: eventsOf({ principal, signal: FOREVER }, started, options.follow),
      tell(event) {
        const message = describeProgress(event);
        if (message !== null) caller.progress({ message });
      },
    });
    const message = await readMessage(options.start.db, {
      tenantId,
      messageId: started.messageId,
    });
    if (run === null || message === null) {
      throw new HubError("not_found", `The message of ${runId} is gone`);
    }
    assertAnswered(run);
    const value = message.parts.map(readAnswer).findLast((one) => one !== undefined);
    return { runId, text: lastWords(message), ...value === undefined ? {} : { value } };
  } finally {
    release();
  }
}

function assertAnswered(run: StoredRun): void {
  if (run.status === "completed") return;
  if (run.status === "cancelled") throw new HubError("aborted", "The run was stopped");
  const { errorText, code } = errorOf(run.error);
  throw new HubError("upstream_rejected", errorText, { clientCode: code });
}
