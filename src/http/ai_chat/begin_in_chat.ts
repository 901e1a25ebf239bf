import type { WhenBusy } from "../../core/when_busy.ts";
import { toHubError } from "../../core/error.ts";
import type { IdSource } from "../../core/id.ts";
import { MAX_STEERING_LENGTH } from "../../core/limits.ts";
import type { UIPart } from "../../core/ui_message.ts";
import {
  activeRunOf,
  type MessageQueue,
  type MessageQueueOptions,
} from "../../run/message_queue.ts";
import type { StartOptions } from "../../run/runnable_agent.ts";
import { sayToRun } from "../../run/say_to_run.ts";
import { type StartedRun, type StartRun, startRun } from "../../run/start_run.ts";
import { readRun } from "../../store/runs.ts";

/** What became of a message to a chat. */
export type BegunInChat =
  | { kind: "started"; started: StartedRun }
  /** Its run begins when the one that goes on has ended. */
  | { kind: "queued"; started: Promise<StartedRun> }
  /** It was said to the run that goes on; what it answers stands behind the event of this id. */
  | { kind: "steered"; runId: string; steeringId: string };

/** What beginning runs of chats needs. */
export interface BeginInChatOptions extends MessageQueueOptions {
  ids: IdSource;
  queue: MessageQueue;
}

/**
 * Begins the run that answers a chat's message. Where another one goes on, `whenBusy` says what is done; what takes the
 * place of an earlier message or answer never waits for what it replaces. Throws as `startRun` does.
 */
export async function beginInChat(
  wish: StartRun,
  { whenBusy }: { whenBusy: WhenBusy },
  options: BeginInChatOptions,
): Promise<BegunInChat> {
  const { queue, start } = options;
  const rewrites = wish.message === null || wish.cutAt !== undefined;
  for (;;) {
    if (whenBusy === "queue" && !rewrites && queue.isWaiting(wish)) {
      return { kind: "queued", started: queue.add(wish) };
    }
    try {
      return { kind: "started", started: await startRun(wish, start) };
    } catch (error) {
      const runId = activeRunOf(error);
      if (runId === null || whenBusy === "refuse") throw error;
      if (rewrites || whenBusy === "replace") {
        return { kind: "queued", started: queue.begin(wish, { replaces: true }) };
      }
      const text = whenBusy === "steer" && await maySteer(wish, runId, start)
        ? textOf(wish.message?.parts ?? [])
        : null;
      if (text === null) return { kind: "queued", started: queue.add(wish) };
      const steeringId = await steer(wish, { runId, text }, options);
      if (steeringId !== null) return { kind: "steered", runId, steeringId };
    }
  }
}

/** A browser token says nothing to a run of another agent than its own. */
async function maySteer(
  { principal: { tenantId, scope } }: StartRun,
  runId: string,
  { db }: StartOptions,
): Promise<boolean> {
  if (scope === undefined) return true;
  return (await readRun(db, { tenantId, runId }))?.agent === scope.agent;
}

/** Says the message to the run; null when that is over by now. */
async function steer(
  { principal: { tenantId }, message }: StartRun,
  { runId, text }: { runId: string; text: string },
  { start: { db, live }, ids, onRequestElsewhere }: BeginInChatOptions,
): Promise<string | null> {
  const said = { tenantId, runId, steeringId: ids.next("steer"), kind: "steer" as const, text };
  try {
    const { steeringId, position } = await sayToRun(db, {
      ...said,
      clientId: message?.clientId ?? null,
    });
    const run = live.get(runId);
    if (run === undefined) onRequestElsewhere(runId);
    else run.steering.tell(position);
    return steeringId;
  } catch (error) {
    if (toHubError(error).clientCode === "run_over") return null;
    throw error;
  }
}

/** The message as a text; null when it has files or is too long, so that a run that goes on cannot be told. */
function textOf(parts: readonly UIPart[]): string | null {
  const texts = parts.map((part) => part.type === "text" ? part.text : null);
  const text = texts.includes(null) ? null : texts.join("\n\n");
  return text === null || text.length > MAX_STEERING_LENGTH ? null : text;
}
