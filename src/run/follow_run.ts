import type { AbortLike } from "../core/abort.ts";
import { type Clock, sleep } from "../core/clock.ts";
import { HubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import { partsToEvents } from "../core/replay.ts";
import type { Database } from "../store/database.ts";
import { readMessage, toUiMessage } from "../store/messages.ts";
import { readEvents, readRun, type StoredRun } from "../store/runs.ts";
import { renderUiEvent } from "../wire/ui_stream.ts";
import type { LiveEvent, Subscriber } from "./broadcast.ts";
import type { LiveRuns } from "./live_runs.ts";
import { storedFacts } from "./stored_facts.ts";

/** What following a run needs. */
export interface FollowOptions {
  db: Database;
  live: Pick<LiveRuns, "get" | "stop">;
  clock: Clock;
  /** Aborts when this replica stops: runs that go on elsewhere are then followed elsewhere. */
  stopped?: AbortLike;
}

/** Which run, from where, until when. `after` 0 replays everything; `signal` ends the wait for events of another replica. */
export interface Follow {
  tenantId: string;
  runId: string;
  after: number;
  signal: AbortLike;
}

const PAGE = 500;
const POLL_MS = 250;
const ENDED: ReadonlySet<StoredRun["status"]> = new Set(["completed", "failed", "cancelled"]);

/**
 * The run's durable events behind a cursor and then its live ones, without a gap and without a repetition: subscribed
 * first, then read, then everything dropped that was read. A cursor that the log does not know is a full replay.
 * Works for running and ended runs, driven here or elsewhere. Gives true at the end when the run is over and nothing is
 * missing, false when its events go on elsewhere. Throws `not_found`.
 */
export async function* followRun(
  follow: Follow,
  options: FollowOptions,
): AsyncGenerator<readonly LiveEvent[], boolean, void> {
  const { tenantId, runId } = follow;
  const subscriber = options.live.get(runId)?.broadcast.subscribe() ?? null;
  try {
    const run = await readRun(options.db, { tenantId, runId });
    if (run === null) throw new HubError("not_found", `There is no run ${runId}`);
    const shown = Math.max(run.lastSeq, subscriber?.tail.at(-1)?.seq ?? 0);
    const known = follow.after <= Math.max(shown, run.reservedTo) && follow.after >= 0;
    let last = known ? follow.after : 0;
    const isPruned = run.lastSeq > 0 && (run.firstLoggedSeq === null || run.firstLoggedSeq > 1);
    if (isPruned && last < (run.firstLoggedSeq ?? Infinity) - 1) {
      yield await fromParts(run, { tenantId, db: options.db });
      last = run.lastSeq;
    }
    for (;;) {
      const page = await readEvents(options.db, { tenantId, runId, afterSeq: last, limit: PAGE });
      if (page.length === 0) break;
      yield page.map(({ seq, event }) => toLive(event, seq));
      last = page.at(-1)?.seq ?? last;
      if (page.at(-1)?.event.type === "finish") return true;
    }
    if (subscriber !== null) return yield* followLive(subscriber, last);
    if (ENDED.has(run.status)) return true;
    return yield* poll(follow, { ...options, last });
  } finally {
    subscriber?.close();
  }
}

/** Events of a run from its first one on, for whoever started it: nothing has to be read. */
export async function* followLive(
  subscriber: Subscriber,
  after: number,
): AsyncGenerator<readonly LiveEvent[], boolean, void> {
  let last = after;
  let events: readonly LiveEvent[] | null = subscriber.tail;
  while (events !== null) {
    const news = events.filter(({ seq }) => seq === null || seq > last);
    for (const { seq } of news) last = seq ?? last;
    if (news.length > 0) yield news;
    if (news.at(-1)?.event.type === "finish") return true;
    events = await subscriber.next();
  }
  return false;
}

/** Follows a run that another replica drives. Gives true when it saw the end. */
async function* poll(
  follow: Follow,
  options: FollowOptions & { last: number },
): AsyncGenerator<readonly LiveEvent[], boolean, void> {
  const { tenantId, runId, signal } = follow;
  let { last } = options;
  while (!signal.aborted && options.stopped?.aborted !== true) {
    const page = await readEvents(options.db, { tenantId, runId, afterSeq: last, limit: PAGE });
    if (page.length > 0) {
      yield page.map(({ seq, event }) => toLive(event, seq));
      last = page.at(-1)?.seq ?? last;
      if (page.at(-1)?.event.type === "finish") return true;
    } else {
      const run = await readRun(options.db, { tenantId, runId });
      if (run === null) return false;
      if (ENDED.has(run.status) && run.lastSeq <= last) return true;
    }
    try {
      await sleep(options.clock, POLL_MS, signal);
    } catch {
      return false;
    }
  }
  return false;
}

/** A replay of a run whose log was pruned: made from its message, ids left out but for the last event's. */
async function fromParts(
  run: StoredRun,
  { tenantId, db }: { tenantId: string; db: Database },
): Promise<LiveEvent[]> {
  const message = await readMessage(db, { tenantId, messageId: run.messageId });
  if (message === null) throw new HubError("not_found", `The message of ${run.runId} is gone`);
  const events: HubEvent[] = partsToEvents(toUiMessage(message), storedFacts(run, message));
  return events.map((event, index) =>
    toLive(event, index === events.length - 1 ? run.lastSeq : null)
  );
}

function toLive(event: HubEvent, seq: number | null): LiveEvent {
  return { seq, event, bytes: renderUiEvent(event, seq) };
}
