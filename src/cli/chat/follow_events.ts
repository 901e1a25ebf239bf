import { type Clock, sleep } from "../../core/clock.ts";
import type { HubEvent } from "../../core/event.ts";
import { createSseParser } from "../../core/sse.ts";
import { type AskedHub, assertAnswered, HubRefusal } from "../ask_hub.ts";

/** Which run is followed, and how. */
export interface FollowedRun {
  runId: string;
  /** The answer that its first events come with, where there is one. */
  first: Response | null;
  clock: Clock;
  signal: AbortSignal;
  /** Told each time that the stream broke off, before it is asked for again. */
  onBreak(): void;
}

/** Tries in a row that bring nothing new. */
const MAX_TRIES = 15;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 5000;
/** As long as a hub may have itself waited for. */
const MAX_RETRY_AFTER_MS = 60_000;
const DONE = "[DONE]";

/**
 * A run's events to its end. A stream that breaks off is asked for again behind the last event that came, also of a hub
 * that is busy, when it says so. Throws `HubRefusal` when the hub does not have the run for this key, the last failure
 * when it stays away, and the signal's reason.
 */
export async function* followEvents(
  hub: AskedHub,
  { runId, first, clock, signal, onBreak }: FollowedRun,
): AsyncGenerator<HubEvent, void, void> {
  let lastId = "";
  let answer = first;
  for (let tries = 0;; tries++) {
    let failure: unknown = new Error(`The stream of ${runId} ended before the run`);
    try {
      answer ??= await hub.send(`/v1/runs/${encodeURIComponent(runId)}/stream`, {
        signal,
        headers: lastId === "" ? {} : { "last-event-id": lastId },
      });
      await assertAnswered(hub, answer);
      for await (const { id, data } of readSse(answer)) {
        if (data === DONE) return;
        const event = JSON.parse(data) as HubEvent;
        lastId = id;
        tries = 0;
        yield event;
      }
    } catch (error) {
      if (error instanceof HubRefusal && !passes(error)) throw error;
      failure = error;
    }
    signal.throwIfAborted();
    if (tries >= MAX_TRIES) throw failure;
    answer = null;
    onBreak();
    await sleep(clock, pauseMs(failure, tries), signal);
  }
}

/** Whether the same may be answered later. */
function passes({ status }: HubRefusal): boolean {
  return status >= 500 || status === 408 || status === 429;
}

function pauseMs(failure: unknown, tries: number): number {
  const wished = failure instanceof HubRefusal ? failure.retryAfterMs ?? 0 : 0;
  const own = Math.min(FIRST_PAUSE_MS * 2 ** tries, MAX_PAUSE_MS);
  return Math.max(own, Math.min(wished, MAX_RETRY_AFTER_MS));
}

async function* readSse(answer: Response): AsyncGenerator<{ id: string; data: string }> {
  const ready: { id: string; data: string }[] = [];
  const parser = createSseParser({ onEvent: (event) => void ready.push(event) });
  for await (const bytes of answer.body ?? []) {
    parser.push(bytes);
    yield* ready.splice(0);
  }
}
