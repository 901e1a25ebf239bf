import type { HubEvent } from "../../core/event.ts";
import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { UIMessage } from "../../core/ui_message.ts";
import { eventsOf } from "../../http/routes/runs.ts";
import { type FollowOptions, followRun } from "../../run/follow_run.ts";
import { hasEnded } from "../../run/look_at_log.ts";
import type { RunnableAgent, StartOptions } from "../../run/runnable_agent.ts";
import { type StartedRun, startRun } from "../../run/start_run.ts";
import { type StopOptions, stopRun } from "../../run/stop_run.ts";
import { errorOf } from "../../run/stored_facts.ts";
import { readMessage } from "../../store/messages.ts";
import { readRun, type StoredRun } from "../../store/runs.ts";
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
    texts: readonly string[];
    extra?: JsonObject | undefined;
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
    agent: asked.agent,
    extra: asked.extra,
    handed,
    message: {
      clientId: null,
      parts: asked.texts.map((text, index) => ({
        type: "text",
        id: `text-${index}`,
        text,
        state: "done",
      })),
    },
  }, options.start);
  const { runId } = started;
  const stop = () => {
    if (options.isStopping()) return;
    const reason = "cancelled by the MCP client";
    stopRun({ tenantId, runId, reason }, options).catch((error: unknown) =>
      options.start.log.warn("A cancelled run could not be stopped", { runId, error })
    );
  };
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    const run = await untilEnd(started, caller, options);
    const message = await readMessage(options.start.db, {
      tenantId,
      messageId: started.messageId,
    });
    if (run === null || message === null) {
      throw new HubError("not_found", `The message of ${runId} is gone`);
    }
    assertAnswered(run);
    return { runId, text: lastWords(message) };
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

async function untilEnd(
  started: StartedRun,
  caller: ToolCaller,
  { start: { db }, follow: { stopped: _, ...follow } }: AgentRunsOptions,
): Promise<StoredRun | null> {
  const { principal, principal: { tenantId } } = caller;
  const { runId } = started;
  let events = eventsOf({ principal, signal: FOREVER }, started, follow);
  for (;;) {
    for await (const page of events) {
      for (const { event } of page) {
        const message = describe(event);
        if (message !== null) caller.progress({ message });
      }
    }
    const run = await readRun(db, { tenantId, runId });
    if (run === null || hasEnded(run)) return run;
    events = followRun({ tenantId, runId, after: run.lastSeq, signal: FOREVER }, follow);
  }
}

/** What a client is told of a run that goes on. */
function describe(event: HubEvent): string | null {
  switch (event.type) {
    case "step-start":
      return `Step ${event.step + 1}`;
    case "tool-input-available":
      return `Calls ${event.toolName}`;
    case "tool-approval-request":
      return `Waits for a person to say whether ${event.toolName} may run`;
    case "tool-output-available":
      return event.preliminary === true ? null : "A tool has answered";
    case "tool-output-error":
      return "A tool has failed";
    case "step-reset":
      return "The model is asked again";
    default:
      return null;
  }
}

function assertAnswered(run: StoredRun): void {
  if (run.status === "completed") return;
  if (run.status === "cancelled") throw new HubError("aborted", "The run was stopped");
  const { errorText, code } = errorOf(run.error);
  throw new HubError("upstream_rejected", errorText, { clientCode: code });
}

/** The text of the last step; of all of them where that said nothing. */
function lastWords({ parts }: Pick<UIMessage, "parts">): string {
  const last = parts.findLastIndex(({ type }) => type === "step-start");
  const textOf = (chosen: UIMessage["parts"]) =>
    chosen.flatMap((part) => part.type === "text" ? [part.text] : []).join("");
  return textOf(parts.slice(last + 1)) || textOf(parts);
}
