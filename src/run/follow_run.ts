import type { AbortLike } from "../core/abort.ts";
import { HubError } from "../core/error.ts";
import type { HubEvent } from "../core/event.ts";
import { isVoidCursor } from "../core/lost_events.ts";
import { partsToEvents } from "../core/replay.ts";
import type { Database } from "../store/database.ts";
import { readMessage, toUiMessage } from "../store/messages.ts";
import { readEvents, readRun, type StoredRun } from "../store/runs.ts";
import type { LiveEvent, Subscriber } from "./broadcast.ts";
import type { LiveRuns } from "./live_runs.ts";
import { hasEnded, toLive } from "./look_at_log.ts";
import type { RunWakeups } from "./run_wakeups.ts";
import { storedFacts } from "./stored_facts.ts";

/** What following a run needs. */
export interface FollowOptions {
  db: Database;
  live: Pick<LiveRuns, "get" | "stop">;
  wakeups: RunWakeups;
  /** Aborts when this replica stops: runs that go on elsewhere are then followed elsewhere. */
  stopped?: AbortLike;
}

/**
 * Which run, from where, until when. `after` 0 replays everything; `signal` ends the wait for events of another replica.
 * With `untilWaiting` it ends, as at its end, too where the run waits for people and all that it has said was given.
 */
export interface Follow {
  tenantId: string;
  runId: string;
  after: number;
  signal: AbortLike;
  untilWaiting?: boolean;
}

const PAGE = 500;

/**
 * The run's durable events behind a cursor and then its live ones, without a gap and without a repetition: subscribed
 * first, then read, then everything dropped that was read. A cursor that the log does not know, or whose events Postgres
 * has lost, is a full replay; a reader that gets to such a place later is broken off with `lease_lost`, and comes back.
 * Works for running and ended runs, driven here or elsewhere. Gives true at the end when the run is over and nothing is
 * missing, false when its events go on elsewhere. Throws `not_found`.
 */
export async function* followRun(
  follow: Follow,
  options: FollowOptions,
): AsyncGenerator<readonly LiveEvent[], boolean, void> {
  const { tenantId, runId } = follow;
  const key = { tenantId, runId };
  const subscriber = options.live.get(runId)?.broadcast.subscribe() ?? null;
  try {
    const run = await readRun(options.db, key);
    if (run === null) throw new HubError("not_found", `There is no run ${runId}`);
    const shown = Math.max(run.lastSeq, subscriber?.tail.at(-1)?.seq ?? 0);
    // While it goes on, its driver may have shown what is not written yet; at its end everything is.
    const newest = hasEnded(run) ? shown : Math.max(shown, run.reservedTo);
    let last = follow.after >= 0 && follow.after <= newest ? follow.after : 0;
    const [next] = last === 0
      ? []
      : await readEvents(options.db, { ...key, afterSeq: last, limit: 1 });
    if (isVoidCursor(next?.event, last)) last = 0;
    const isPruned = run.lastSeq > 0 && (run.firstLoggedSeq === null || run.firstLoggedSeq > 1);
    if (isPruned && last < (run.firstLoggedSeq ?? Infinity) - 1) {
      yield await fromParts(run, { tenantId, db: options.db });
      last = run.lastSeq;
    }
    for (;;) {
      const page = await readEvents(options.db, { ...key, afterSeq: last, limit: PAGE });
      if (page.length === 0) break;
      yield page.map(({ seq, event }) => toLive(event, seq));
      last = page.at(-1)?.seq ?? last;
      if (page.at(-1)?.event.type === "finish") return true;
    }
    if (subscriber !== null) {
      return yield* followOn(subscriber, { ...follow, after: last }, options);
    }
    if (hasEnded(run)) return true;
    return yield* followLog(follow, { ...options, last });
  } finally {
    subscriber?.close();
  }
}

/** Events of a run that is driven here, and its log from where it waits for people and may go on elsewhere. */
export async function* followOn(
  subscriber: Subscriber,
  follow: Follow,
  options: FollowOptions,
): AsyncGenerator<readonly LiveEvent[], boolean, void> {
  let last = follow.after;
  const live = followLive(subscriber, last);
  for (;;) {
    const { value, done } = await live.next();
    if (done === true) {
      if (value || follow.signal.aborted) return value;
      return yield* followLog(follow, { ...options, last });
    }
    last = value.findLast(({ seq }) => seq !== null)?.seq ?? last;
    yield value;
  }
}

/** Events of a run from a number on while it is driven here: nothing has to be read. */
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
async function* followLog(
  { tenantId, runId, signal, untilWaiting = false }: Follow,
  { wakeups, stopped, last: from }: FollowOptions & { last: number },
): AsyncGenerator<readonly LiveEvent[], boolean, void> {
  let last = from;
  const watch = wakeups.watch({ tenantId, runId });
  try {
    while (!signal.aborted && stopped?.aborted !== true) {
      const { events, run } = await watch.look(last);
      if (isVoidCursor(events[0]?.event, last)) throw eventsLost(runId);
      if (events.length > 0) yield events;
      if (run === "waits" && untilWaiting) return true;
      if (run === "over" || run === "gone") return run === "over";
      if (events.length === 0) await watch.next(signal);
      last = events.at(-1)?.seq ?? last;
    }
    return false;
  } finally {
    watch.close();
  }
}

function eventsLost(runId: string): HubError {
  return new HubError(
    "lease_lost",
    `Postgres has lost events of ${runId} that were shown: follow it again, it begins with \`start\``,
  );
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
