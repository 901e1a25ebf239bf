import { HubError, toHubError } from "../core/error.ts";
import type { FollowOptions } from "./follow_run.ts";
import { awaitRun } from "./run_answer.ts";
import { type StartedRun, type StartRun, startRun } from "./start_run.ts";
import type { StartOptions } from "./runnable_agent.ts";
import { type StopOptions, stopRun } from "./stop_run.ts";

/** What queueing messages needs. */
export interface MessageQueueOptions extends StopOptions {
  start: StartOptions;
  follow: FollowOptions;
}

/** Messages that wait for one session at one replica. */
export const MAX_QUEUED = 20;
/** Messages that wait at one replica, for all sessions together. */
export const MAX_QUEUED_IN_ALL = 2000;

const NEVER = new AbortController().signal;

/**
 * Messages said to sessions whose run goes on: each begins its run when those before it have ended, in the order in which
 * they came to this replica. A message waits in memory: it is said when its run begins, whether its client is still there
 * or not, and not at all when the replica stops before.
 */
export class MessageQueue {
  readonly #options: MessageQueueOptions;
  /** By tenant and session: how many wait, and the last of them. */
  readonly #lines = new Map<string, { waiting: number; last: Promise<unknown> }>();
  #size = 0;

  constructor(options: MessageQueueOptions) {
    this.#options = options;
  }

  /** Whether messages of this session wait here. */
  isWaiting({ principal: { tenantId }, sessionId }: StartRun): boolean {
    return this.#lines.has(`${tenantId} ${sessionId}`);
  }

  /** Begins the run when the session is free. Rejects as `startRun` does, and with `overloaded` when too many wait. */
  add(wish: StartRun): Promise<StartedRun> {
    const place = `${wish.principal.tenantId} ${wish.sessionId}`;
    const line = this.#lines.get(place) ?? { waiting: 0, last: Promise.resolve() };
    if (line.waiting >= MAX_QUEUED || this.#size >= MAX_QUEUED_IN_ALL) {
      const [count, where] = line.waiting >= MAX_QUEUED
        ? [line.waiting, "for this chat"]
        : [this.#size, "for all chats"];
      throw new HubError("overloaded", `${count} messages wait ${where} already: say it later`, {
        retryAfterMs: 5000,
      });
    }
    line.waiting++;
    this.#size++;
    const begun = line.last.then(() => this.begin(wish, { replaces: false }));
    line.last = begun.catch(() => {}).then(() => {
      line.waiting--;
      this.#size--;
      if (line.waiting === 0) this.#lines.delete(place);
    });
    this.#lines.set(place, line);
    return begun;
  }

  /** Begins the run when the session's has ended; with `replaces` that one is stopped first. Rejects as `startRun` does. */
  async begin(wish: StartRun, { replaces }: { replaces: boolean }): Promise<StartedRun> {
    const { start, follow } = this.#options;
    const { tenantId } = wish.principal;
    const signal = follow.stopped ?? NEVER;
    for (;;) {
      try {
        return await startRun(wish, start);
      } catch (error) {
        const runId = activeRunOf(error);
        if (runId === null) throw error;
        if (replaces) {
          await stopRun({ tenantId, runId, reason: "replaced by another message" }, this.#options);
        }
        await awaitRun({ tenantId, runId, signal }, { follow, tell() {} });
        if (signal.aborted) {
          throw new HubError("shutting_down", "This replica stops: say the message again");
        }
      }
    }
  }
}

/** The run that is in the way of another one of its session; null for any other failure. */
export function activeRunOf(error: unknown): string | null {
  const { clientCode, details } = toHubError(error);
  const runId = details?.["activeRun"];
  return clientCode === "run_active" && typeof runId === "string" ? runId : null;
}
