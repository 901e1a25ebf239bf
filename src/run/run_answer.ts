import type { HubEvent } from "../core/event.ts";
import type { UIMessage } from "../core/ui_message.ts";
import { readQuestion } from "../core/run_question.ts";
import { readRun, type StoredRun } from "../store/runs.ts";
import { type Follow, type FollowOptions, followRun } from "./follow_run.ts";
import type { LiveEvent } from "./broadcast.ts";
import { hasEnded } from "./look_at_log.ts";

/**
 * Tells of a run until it is over, wherever it goes on; null when it is gone. `first` are its events where somebody has
 * begun to read them. With an aborted signal it gives the run as it stands.
 */
export async function awaitRun(
  { tenantId, runId, signal }: Omit<Follow, "after">,
  { follow, first, tell }: {
    follow: FollowOptions;
    first?: AsyncIterable<readonly LiveEvent[]>;
    tell(event: HubEvent): void;
  },
): Promise<StoredRun | null> {
  const { stopped: _, ...options } = follow;
  let events = first ?? followRun({ tenantId, runId, after: 0, signal }, options);
  for (;;) {
    for await (const page of events) for (const { event } of page) tell(event);
    const run = await readRun(options.db, { tenantId, runId });
    if (run === null || hasEnded(run) || signal.aborted) return run;
    events = followRun({ tenantId, runId, after: run.lastSeq, signal }, options);
  }
}

/** What somebody is told who waits for a run that goes on; null for what is of no interest. */
export function describeProgress(event: HubEvent): string | null {
  switch (event.type) {
    case "step-start":
      return `Step ${event.step + 1}`;
    case "tool-input-available":
      return `Calls ${event.toolName}`;
    case "data": {
      const question = readQuestion(event);
      return question?.state === "pending" ? `Waits for an answer to ${question.source}` : null;
    }
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

/** The text of the last step; of all of them where that said nothing. */
export function lastWords({ parts }: Pick<UIMessage, "parts">): string {
  const last = parts.findLastIndex(({ type }) => type === "step-start");
  const textOf = (chosen: UIMessage["parts"]) =>
    chosen.flatMap((part) => part.type === "text" ? [part.text] : []).join("");
  return textOf(parts.slice(last + 1)) || textOf(parts);
}
